import { InvalidOptionError, UnsupportedTransactionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'
import type { Engine, HandleAdapter, RootAdapter } from './handle-adapter.ts'
import { kyselyHandle, kyselyRoot } from './drivers/kysely.ts'
import { mysql2Handle, mysql2Root } from './drivers/mysql2.ts'
import { pgHandle, pgRoot } from './drivers/pg.ts'

const HANDLES = {
  postgres: [kyselyHandle, pgHandle],
  mysql: [kyselyHandle, mysql2Handle],
} as Readonly<Record<Engine, readonly HandleAdapter[]>>
const ROOTS = {
  postgres: [kyselyRoot, pgRoot],
  mysql: [kyselyRoot, mysql2Root],
} as Readonly<Record<Engine, readonly RootAdapter[]>>

const EXPECTED: Record<Engine, { readonly handle: string; readonly root: string }> = {
  postgres: { handle: 'a connected pg client after BEGIN', root: 'a pg.Pool' },
  mysql: {
    handle: 'a mysql2 connection after beginTransaction()',
    root: 'a mysql2 promise pool (of a callback pool: pool.promise())',
  },
}

/**
 * Returns the adapter of a handle that a caller passed as the transaction.
 *
 * @throws {UnsupportedTransactionError} when there is none.
 */
export function recogniseHandle(handle: unknown, engine: Engine): HandleAdapter {
  for (const adapter of HANDLES[engine]) {
    if (adapter.recognises(handle)) return adapter
  }
  throw new UnsupportedTransactionError(
    `Expected an open transaction, not ${nameOf(handle)}. Pass a Kysely Transaction or ${EXPECTED[engine].handle}. ` +
      'Nothing was written.',
  )
}

/** Returns the adapter of a root that a user passed as `db`. @throws {InvalidOptionError} when there is none. */
export function recogniseRoot(where: string, root: unknown, engine: Engine): RootAdapter {
  for (const adapter of ROOTS[engine]) {
    if (adapter.recognises(root)) return adapter
  }
  throw new InvalidOptionError(
    `${where}: the option 'db' must be a Kysely or ${EXPECTED[engine].root}, not ${nameOf(root)}. Pass the root, not a ` +
      'transaction or a single client.',
  )
}
