import path from 'node:path'
import { isProgram } from './is-program.ts'

/** Finds `redis-server`: the file that `TXBOX_REDIS_SERVER` names, or the file on the path. */
export function findRedisProgram(): string | undefined {
  const named = process.env['TXBOX_REDIS_SERVER']
  if (named !== undefined && named !== '') return isProgram(named) ? named : undefined
  const folders = (process.env['PATH'] ?? '').split(path.delimiter)
  return folders.map((folder) => path.join(folder, 'redis-server')).find(isProgram)
}
