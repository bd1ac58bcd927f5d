import { describe, expect, test } from 'vitest'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import { useTarget } from '../../support/engines/target.ts'

const target = useTarget()

describe.each(target.oddities)('%s', (odd) => {
  for (const way of WAYS) {
    test(`outcomes do not depend on the user's settings (${way})`, async () => {
      const root = target.openOdd(odd)
      try {
        const subject = new InboxUnderTest(target, root)
        const before = await target.now()
        expect(await subject.deliver(way, { id: 'A1', correlationId: 'c' })).toMatchObject({
          status: 'processed',
        })
        const duplicate = await subject.deliver(way, { id: 'A1' })
        const [claim] = await target.claims(subject.consumer)
        expect(duplicate).toEqual({ status: 'duplicate', key: 'A1', firstProcessedAt: claim?.processedAt })
        expect(Math.abs((claim?.processedAt.getTime() ?? 0) - before.getTime())).toBeLessThan(20_000)
        expect(await subject.deliver(way, { id: 'á1\\' })).toMatchObject({ status: 'processed' })

        await target.expire(subject.consumer)
        expect(await subject.deliver(way, { id: 'A1' })).toMatchObject({ status: 'processed' })
        expect(await subject.deliver(way, { id: 'A1' })).toMatchObject({ status: 'duplicate' })
        expect(await subject.effects()).toBe(3)
      } finally {
        await root.close()
      }
    })
  }

  test("batches and the tracker do not depend on the user's settings", async () => {
    const root = target.openOdd(odd)
    try {
      const subject = new InboxUnderTest(target, root)
      await subject.process({ id: 'b' })
      const [claim] = await target.claims(subject.consumer)
      const transaction = await root.begin()
      const { outcomes } = await subject.inbox.processBatch(
        transaction.tx,
        ['c', 'b', 'a', 'c', '{"x"}', 'NULL'].map((id) => ({ id })),
        () => undefined,
      )
      const tracked = [
        await subject.inbox.hasProcessed(transaction.tx, { id: 'a' }),
        await subject.inbox.hasProcessed(transaction.tx, { id: 'z' }),
        await subject.inbox.forget(transaction.tx, { id: 'a' }),
        await subject.inbox.forget(transaction.tx, { id: 'z' }),
        await subject.inbox.markProcessed(transaction.tx, { id: 'a' }),
        await subject.inbox.markProcessed(transaction.tx, { id: 'a' }),
      ]
      await transaction.commit()
      const statuses = outcomes.map((outcome) => outcome.status)
      expect(statuses).toEqual(['processed', 'duplicate', 'processed', 'duplicate', 'processed', 'processed'])
      expect(outcomes[1]).toEqual({ status: 'duplicate', key: 'b', firstProcessedAt: claim?.processedAt })
      expect(tracked).toEqual([true, false, true, false, 'recorded', 'duplicate'])
      expect(await subject.claimedKeys()).toEqual(['NULL', 'a', 'b', 'c', '{"x"}'].toSorted())
    } finally {
      await root.close()
    }
  })
})
