import path from 'node:path'
import { isProgram } from './is-program.ts'

/** Finds `pgbouncer`: the file that `TXBOX_PGBOUNCER` names, or the file on the path, or where Debian installs it. */
export function findPgbouncerProgram(): string | undefined {
  const named = process.env['TXBOX_PGBOUNCER']
  if (named !== undefined && named !== '') return isProgram(named) ? named : undefined
  const folders = [...(process.env['PATH'] ?? '').split(path.delimiter), '/usr/sbin']
  return folders.map((folder) => path.join(folder, 'pgbouncer')).find(isProgram)
}
