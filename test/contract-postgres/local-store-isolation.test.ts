import { expect, test } from 'vitest'
import { TransactionConflictError } from '@txbox/core'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { LocalStoreUnderTest, refusal } from '../support/subjects/local-store-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 6 })

  test('L1 at REPEATABLE READ, a row that changed after the snapshot is a conflict', async () => {
    const local = new LocalStoreUnderTest(root, target, outbox)
    await local.takeLease()
    await local.publish('k', 'l')
    const [waiting, other] = await local.messages()
    await local.settle({ refused: [refusal(other!)] })
    const [parked] = await local.readDue()
    for (const row of [waiting!, parked!]) {
      const locking = local.ports.transact(
        async (_tx, session) => {
          // The first statement takes the snapshot.
          await local.store.lock(session, local.lease, { consumer: 'nobody', shard: 3 }, [row])
          await local.settle({ accepted: [row] })
          return local.store.lock(session, local.lease, { consumer: 'billing', shard: 3 }, [row])
        },
        { isolation: 'repeatable read' },
      )
      await expect(locking).rejects.toThrow(TransactionConflictError)
    }
  })

  test('L1 a lock that travels with BEGIN, and one that does not, lock the same rows', async () => {
    const local = new LocalStoreUnderTest(root, target, outbox)
    await local.takeLease()
    const ids = await local.publish('k', 'l', 'm')
    const messages = await local.messages()
    await local.settle({ accepted: messages.slice(1, 2) })
    const first = await local.handle(messages)
    expect(first.locked).toEqual([ids[0], ids[2]])
    await first.rollback()
    const locked = await local.ports.transact(async (_tx, session) => {
      await local.store.lock(session, local.lease, { consumer: 'nobody', shard: 3 }, messages)
      return local.store.lock(session, local.lease, { consumer: 'billing', shard: 3 }, messages)
    }, {})
    expect(locked.map(({ seq }) => seq)).toEqual([messages[0]!.seq, messages[2]!.seq])
  })
})
