import { InvalidOptionError, UnsupportedTransactionError, nameOf } from '@txbox/core'
import type { Driver, HandleAdapter, RootAdapter } from './handle-adapter.ts'
import { kyselyHandle, kyselyRoot } from './kysely.ts'
import { mysql2Handle, mysql2Root } from './mysql2.ts'
import { pgHandle, pgRoot } from './pg.ts'

const HANDLES = {
  pg: [kyselyHandle, pgHandle],
  mysql2: [kyselyHandle, mysql2Handle],
} as Readonly<Record<Driver, readonly HandleAdapter[]>>
const ROOTS = {
  pg: [kyselyRoot, pgRoot],
  mysql2: [kyselyRoot, mysql2Root],
} as Readonly<Record<Driver, readonly RootAdapter[]>>

const EXPECTED: Record<Driver, { readonly handle: string; readonly root: string }> = {
  pg: { handle: 'a connected pg client after BEGIN', root: 'a pg.Pool' },
  mysql2: {
    handle: 'a mysql2 connection after beginTransaction()',
    root: 'a mysql2 promise pool (of a callback pool: pool.promise())',
  },
}

/** The adapter for what a caller passed as his transaction. @throws {UnsupportedTransactionError} when there is none. */
export function recogniseHandle(handle: unknown, driver: Driver): HandleAdapter {
  for (const adapter of HANDLES[driver]) {
    if (adapter.recognises(handle)) return adapter
  }
  throw new UnsupportedTransactionError(
    `Expected an open transaction, not ${nameOf(handle)}. Pass a Kysely Transaction or ${EXPECTED[driver].handle}. ` +
      'Nothing was written.',
  )
}

/** The adapter for what a user passed as `db`. @throws {InvalidOptionError} when there is none. */
export function recogniseRoot(where: string, root: unknown, driver: Driver): RootAdapter {
  for (const adapter of ROOTS[driver]) {
    if (adapter.recognises(root)) return adapter
  }
  throw new InvalidOptionError(
    `${where}: the option 'db' must be a Kysely or ${EXPECTED[driver].root}, not ${nameOf(root)}. Pass the root, not a ` +
      'transaction or a single client.',
  )
}
