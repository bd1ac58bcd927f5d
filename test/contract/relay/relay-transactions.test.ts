import { expect, onTestFinished, test } from 'vitest'
import { Broker } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget, type ServerTransaction } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  outboxOf,
  publishAll,
  publishIn,
  RelayUnderTest,
} from '../../support/subjects/relay-under-test.ts'
import {
  ISOLATIONS,
  mainKind,
  onEachRoot,
  onEachRootAndIsolation,
  useRoot,
  useTarget,
} from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const [firstKey, other] = keysOfOneShard(2) as [string, string]

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('O8 no transaction is open while the publisher works', async () => {
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: async (call) => {
        for (let look = 0; look < 3; look += 1) await untilOver(await outbox.transactions())
        return call.acceptAll()
      },
    })
    await publishAll(root, [...messagesOf(firstKey, 3), ...messagesOf(undefined, 32)])
    const subject = await RelayUnderTest.started(root, publisher, { leaseMs: 600, batchSize: 1 })
    await broker.received(35)
    await subject.relay.drain()
    // The publisher throws if it sees a transaction that does not end while it works.
    expect(subject.heard('unavailable').map(({ error }) => String(error))).toEqual([])
  })
})

/** Short transactions begin and end meanwhile: other shards are settled, and leases are renewed. */
async function untilOver(transactions: readonly ServerTransaction[]): Promise<void> {
  const ids = new Set(transactions.map(({ id }) => id))
  const left = async (): Promise<readonly ServerTransaction[]> =>
    (await outbox.transactions()).filter(({ id }) => ids.has(id))
  await until(
    async () => (await left()).length === 0,
    async () => `open while the publisher works: ${JSON.stringify(await left())}`,
    2000,
  )
}

onEachRootAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  test('O12 an open transaction delays only its own messages: neither reading nor settling waits for it', async () => {
    const broker = new Broker()
    const subject = await RelayUnderTest.started(root, broker.publisher())
    const before = await publishAll(root, messagesOf(firstKey, 2))
    // It has the same shard and the same key, and its numbers are between those of other messages.
    const openTransaction = await root.begin()
    const held = await publishIn(root, openTransaction, messagesOf(firstKey, 2, 100))
    const during = await publishAll(root, [...messagesOf(firstKey, 2, 3), ...messagesOf(other, 2)])
    await publishIn(root, openTransaction, messagesOf(other, 2, 100))
    await broker.received(6)
    // The messages are settled, too, while that transaction is open.
    await outbox.settled()
    expect(broker.ids().sort()).toEqual([...before, ...during].sort())
    await openTransaction.commit()
    await broker.received(10)
    await subject.relay.drain()
    expect(broker.ids(firstKey).slice(-2)).toEqual(held)
    expect(broker.ids().length).toBe(10)
    expect(await outbox.backlog()).toEqual([])
    expect(subject.heard('error')).toEqual([])
  })

  test('O12 an open transaction that is finally rolled back has delayed no other message', async () => {
    const broker = new Broker()
    const openTransaction = await root.begin()
    await publishIn(root, openTransaction, messagesOf(firstKey, 5))
    const ids = await publishAll(root, [...messagesOf(firstKey, 5, 6), ...messagesOf(other, 5)])
    const subject = new RelayUnderTest(root, broker.publisher(), { batchSize: 2 })
    await subject.relay.drain()
    await subject.relay.stop()
    expect(await outbox.backlog()).toEqual([])
    await openTransaction.rollback()
    expect(broker.ids().sort()).toEqual([...ids].sort())
  })
})

for (const isolation of ISOLATIONS) {
  test(`O12 an old snapshot that is held open makes no difference to what is published, at ${isolation}`, async () => {
    const kind = mainKind(target)
    const root = target.open(kind, { isolation })
    onTestFinished(() => root.close())
    await outbox.fill(200)
    // It has read the outbox, has written, and stays open, so that rows deleted since then cannot be vacuumed.
    const old = await root.begin()
    expect((await old.exec(`select count(*) as n from ${target.outboxTable}`)).length).toBe(1)
    await target.effect(old.tx, `pins the horizon, ${isolation}`)
    const broker = new Broker()
    const subject = await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }), {
      batchSize: 50,
    })
    const ids: string[] = []
    for (let round = 0; round < 10; round += 1) {
      const transaction = await root.begin()
      const stored = await outboxOf(root).publish(transaction.tx, messagesOf(firstKey, 100, round * 100))
      await transaction.commit()
      ids.push(...stored.map(({ id }) => id))
    }
    await broker.received(1200)
    await subject.relay.drain()
    expect(broker.ids(firstKey)).toEqual(ids)
    expect(broker.ids().length).toBe(1200)
    expect(await outbox.backlog()).toEqual([])
    await old.rollback()
  })
}
