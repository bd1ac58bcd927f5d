import { applyVersion, transition, stateMachine, updateVersioned } from '@txbox/versioning'
import { TransactionConflictError, type TransactionHandle } from '@txbox/core'
import type { Transaction } from 'kysely'
import { describe, expect, test } from 'vitest'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import { ISOLATIONS, useRoot, useTarget } from '../../support/engines/target.ts'
import {
  failureOf,
  kyselyOf,
  useVersionedTables,
  type VersionedTables,
} from '../../support/subjects/versioned-tables.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const kysely = target.kinds.find((kind) => kind.library === 'kysely')!
const machine = stateMachine({ pending: ['paid'], paid: ['refunded'], refunded: [] })

function on(tx: TransactionHandle): Transaction<VersionedTables> {
  return tx as unknown as Transaction<VersionedTables>
}

for (const isolation of ISOLATIONS) {
  describe.each(WAYS)(`${isolation}, %s`, (way) => {
    const root = useRoot(target, kysely, { isolation, max: 8 })

    test('V2 I2 an error of a helper rolls the claim back, so that a redelivery runs again', async () => {
      const subject = new InboxUnderTest(target, root)
      const id = await tables.order({ version: 3, status: 'pending' })
      const change = (tx: TransactionHandle) =>
        applyVersion(on(tx), 'orders', { where: { id }, from: 4, to: 5, set: { total: 5 } })
      const deliver = () =>
        subject.deliver(way, { id: 'm5' }, async (tx, message, context) => {
          await subject.handle(tx, message, context)
          return change(tx)
        })
      expect(await failureOf(deliver())).toMatchObject({ code: 'TXBOX_VERSION_GAP' })
      expect(await subject.claimedKeys()).toEqual([])
      expect(await subject.effects()).toBe(0)

      // The missing change arrives; the redelivery is the first delivery that takes effect.
      await updateVersioned(kyselyOf(target, root), 'orders', { where: { id }, expected: 3, set: {} })
      expect(await deliver()).toMatchObject({
        status: 'processed',
        result: { status: 'applied', version: 5 },
      })
      expect(await deliver()).toMatchObject({ status: 'duplicate' })
      expect(await subject.effects()).toBe(1)
      expect(await tables.read(id)).toMatchObject({ version: '5', total: 5 })
    })

    test('V3 I7 an error of a helper may be caught in the handler: the transaction continues', async () => {
      const subject = new InboxUnderTest(target, root)
      const id = await tables.order({ version: 3, status: 'pending' })
      const outcome = await subject.deliver(way, { id: 'early' }, async (tx) => {
        const options = {
          where: { id },
          column: 'status',
          to: 'refunded',
          machine: machine as never,
        } as const
        const failure = await failureOf(transition(on(tx), 'orders', options))
        await updateVersioned(on(tx), 'orders', { where: { id }, expected: 3, set: { note: 'early' } })
        return String(Reflect.get(failure as object, 'code'))
      })
      expect(outcome).toMatchObject({ status: 'processed', result: 'TXBOX_TRANSITION_TOO_EARLY' })
      expect(await tables.read(id)).toMatchObject({ version: '4', status: 'pending' })
    })

    test('V1 I5 concurrent deliveries that change one row lose no change: conflicts are redelivered', async () => {
      const subject = new InboxUnderTest(target, root)
      const id = await tables.order({ version: 1 })
      const deliver = async (n: number): Promise<unknown> => {
        for (;;) {
          try {
            return await subject.deliver(way, { id: `m${n}` }, async (tx) => {
              const row = await on(tx)
                .selectFrom('orders')
                .selectAll()
                .where('id', '=', id)
                .executeTakeFirstOrThrow()
              const options = { where: { id }, expected: row.version, set: { total: row.total + 1 } }
              return updateVersioned(on(tx), 'orders', options)
            })
          } catch (error) {
            const code: unknown = Reflect.get(error as object, 'code')
            if (!(error instanceof TransactionConflictError) && code !== 'TXBOX_VERSION_CONFLICT') throw error
          }
        }
      }
      await Promise.all(Array.from({ length: 6 }, (_, n) => deliver(n)))
      expect(await tables.read(id)).toMatchObject({ version: '7', total: 6 })
    })
  })
}
