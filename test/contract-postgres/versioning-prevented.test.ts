import { updateVersioned } from '@txbox/versioning'
import { TransactionConflictError } from '@txbox/core'
import { expect, test } from 'vitest'
import { useRoot, useTarget } from '../support/engines/target.ts'
import { failureOf, kyselyOf, useVersionedTables } from '../support/subjects/versioned-tables.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const root = useRoot(
  target,
  target.kinds.find((kind) => kind.library === 'kysely')!,
)

test('V2 an UPDATE that a trigger prevents is no conflict of versions, and does not continue forever', async () => {
  await target.sql(
    'create function prevent() returns trigger language plpgsql as $$ begin return null; end $$',
  )
  await target.sql('create trigger prevent before update on orders for each row execute function prevent()')
  const id = await tables.order({ version: 3 })
  const failure = await failureOf(
    updateVersioned(kyselyOf(target, root), 'orders', { where: { id }, expected: 3, set: {} }),
  )
  expect(failure).toBeInstanceOf(TransactionConflictError)
  expect(String(failure)).toMatch(/a trigger or a policy/)
})
