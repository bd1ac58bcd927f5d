import path from 'node:path'
import { isProgram } from './is-program.ts'

/** Finds `nats-server`: the file that `TXBOX_NATS_SERVER` names, or the file on the path or where packages install it. */
export function findNatsProgram(): string | undefined {
  const named = process.env['TXBOX_NATS_SERVER']
  if (named !== undefined && named !== '') return isProgram(named) ? named : undefined
  const folders = [...(process.env['PATH'] ?? '').split(path.delimiter), '/usr/sbin', '/usr/local/sbin']
  return folders.map((folder) => path.join(folder, 'nats-server')).find(isProgram)
}
