import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
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
})
