import { randomBytes } from 'node:crypto'

const PREFIX = 'txbox_test_'
const HOUR_MS = 3_600_000

// The main process loads this module before it starts the workers, which inherit the variable.
const run = (process.env['TXBOX_TEST_RUN_ID'] ??= randomBytes(4).toString('hex'))

/** The name of a new database: it contains the time and the run, so that leftovers can be recognized. */
export function newTestDatabaseName(): string {
  return `${PREFIX}${Date.now().toString(36)}_${run}_${randomBytes(4).toString('hex')}`
}

/** Whether a database was created by this run, whose tests have ended, or by a run that died more than an hour ago. */
export function isLeftover(name: string, scope: 'this run' | 'earlier runs'): boolean {
  if (!name.startsWith(PREFIX)) return false
  const [time = '', its] = name.slice(PREFIX.length).split('_')
  if (scope === 'this run') return its === run
  // A database younger than an hour may belong to a concurrent run.
  return Date.now() - Number.parseInt(time, 36) >= HOUR_MS
}
