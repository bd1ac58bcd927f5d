import { stateMachine } from '@txbox/versioning'
import { TransactionConflictError, type TransactionHandle } from '@txbox/core'
import { describe, expect, test } from 'vitest'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import { useTarget } from '../../support/engines/target.ts'
import { failureOf, useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import { onEachHalf } from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const machine = stateMachine({ pending: ['paid'], paid: ['refunded'], refunded: [] })

onEachHalf(target, (half) => {
  const { applyVersion, root, transition, updateVersioned } = half

  describe.each(WAYS)('%s', (way) => {
    test('V2 I2 an error of a helper rolls the claim back, so that a redelivery runs again', async () => {
      const subject = new InboxUnderTest(target, root)
      const id = await tables.order({ version: 3, status: 'pending' })
      const change = (tx: TransactionHandle) =>
        applyVersion(tx, 'orders', { where: { id }, from: 4, to: 5, set: { total: 5 } })
      const deliver = () =>
        subject.deliver(way, { id: 'm5' }, async (tx, message, context) => {
          await subject.handle(tx, message, context)
          return change(tx)
        })
      expect(await failureOf(deliver())).toMatchObject({ code: 'TXBOX_VERSION_GAP' })
      expect(await subject.claimedKeys()).toEqual([])
      expect(await subject.effects()).toBe(0)

      // The missing change arrives; the redelivery is the first delivery that takes effect.
      await updateVersioned(half.db, 'orders', { where: { id }, expected: 3, set: {} })
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
        const failure = await failureOf(transition(tx, 'orders', options))
        await updateVersioned(tx, 'orders', { where: { id }, expected: 3, set: { note: 'early' } })
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
              const [row] = await target.exec(tx, 'select version, total from orders where id = ?', [id])
              const [version, total] = [Number(row?.['version']), Number(row?.['total'])]
              const options = { where: { id }, expected: version, set: { total: total + 1 } }
              return updateVersioned(tx, 'orders', options)
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
})
