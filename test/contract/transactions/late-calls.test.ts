import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

onEachRoot(target, (kind) => {
  /** The next transaction gets the connection of the previous one. */
  const root = useRoot(target, kind, { max: 1 })

  test('O1 O3 calls that were not awaited store nothing in the next transaction of the connection', async () => {
    const sender = createOutbox({ database: root.database })
    const pause = target.engine === 'postgres' ? 'select pg_sleep(0.03)' : 'select sleep(0.03)'
    const late: Promise<unknown>[] = []
    const refused = root.database.transact(async (tx) => {
      // The connection is busy, so the calls wait for their turn.
      const calls = [1, 2, 3].map((n) => sender.publish(tx, { topic: 'late', key: 'k', payload: n }))
      calls.push(target.exec(tx, pause) as never, sender.publish(tx, { topic: 'late', key: 'k', payload: 4 }))
      late.push(Promise.allSettled(calls))
      await turn()
      throw new Error('refused')
    })
    const next = root.database.transact(async (tx: TransactionHandle) => {
      for (let n = 0; n < 3; n += 1) await target.exec(tx, 'select 1')
      await sleep(60)
    })
    await expect(refused).rejects.toThrow('refused')
    await next
    await Promise.all(late)
    expect(await outbox.backlog()).toEqual([])
  })

  test('O1 I2 whenever a transaction is rolled back, calls that were not awaited leave nothing', async () => {
    const subject = new InboxUnderTest(target, root)
    const sender = createOutbox({ database: root.database })
    // The later the rollback, the further the calls have come.
    for (let ticks = 0; ticks < 60; ticks++) {
      const transaction = await root.begin()
      const claimed = subject.inbox.process(transaction.tx, { id: `${kind.name} ${ticks}` }, () => undefined)
      const published = sender.publish(transaction.tx, { topic: 'late', key: 'k', payload: ticks })
      const calls = Promise.allSettled(ticks % 2 === 0 ? [claimed, published] : [published, claimed])
      for (let tick = 0; tick < ticks; tick++) await Promise.resolve()
      await transaction.rollback()
      await calls
    }
    expect([await subject.claimedKeys(), await outbox.backlog()]).toEqual([[], []])
  })
})
