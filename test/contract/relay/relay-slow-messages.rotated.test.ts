import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { publishEach, type Publisher } from '@txbox/relay'
import { Broker, Gate, holding, rejected } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
// This concerns the publisher, so the library of the database makes no difference.
const root = useRoot(target, mainKind(target), { max: 8 })
const [slow, ...quick] = keysOfOneShard(10) as [string, ...string[]]

test('O4 a slow message of a batch delays only its own key: the other messages are settled, and later ones of other keys follow', async () => {
  const gate = new Gate()
  const broker = new Broker()
  const inner = broker.publisher()
  const publisher = publishEach(async (message, { signal }) => {
    if (message.key === slow && message.json<{ n: number }>().n === 1) await gate.pass()
    await inner.publish([message], { signal })
  })
  const first = await publishAll(root, [
    ...messagesOf(slow, 3),
    ...quick.flatMap((key) => messagesOf(key, 3)),
  ])
  const subject = await RelayUnderTest.started(root, publisher)
  await gate.reached()
  await until(
    async () => (await outbox.backlogSize()) === 3,
    () => `only the slow key is left. ${subject.describeErrors()}`,
  )
  for (const [round, key] of quick.entries()) {
    await publishAll(root, messagesOf(key, 2, 10 + round))
    await until(
      async () => (await outbox.backlogSize()) === 3,
      () => 'later messages follow',
    )
  }
  expect(broker.ids(slow)).toEqual([])
  gate.open()
  await outbox.settled()
  expect(broker.ids(slow)).toEqual(first.slice(0, 3))
  expect(broker.violations).toEqual([])
  expect(subject.heard('parked')).toEqual([])
})

test('O4 a slow message that is refused in the end parks its key, in order, and nothing is published twice', async () => {
  const gate = new Gate()
  const broker = new Broker()
  let refusals = 0
  const publisher = broker.publisher({
    ordering: 'per-key',
    respond: async (call) => {
      const isSlow = call.messages.some(({ key }) => key === slow)
      if (!isSlow || refusals > 0) return call.acceptAll()
      await gate.pass()
      refusals += 1
      return call.messages.map((message, n) => {
        if (message.key !== slow) return call.accept(message)
        return call.messages.findIndex(({ key }) => key === slow) === n ? rejected() : { status: 'skipped' }
      })
    },
  })
  const ids = await publishAll(root, messagesOf(slow, 3))
  await RelayUnderTest.started(root, publisher, { retry: { attempts: 5, delayMs: () => 50 } })
  await gate.reached()
  const later = await publishAll(root, messagesOf(slow, 2, 4))
  const others = await publishAll(root, messagesOf(quick[0], 5))
  await broker.received(5)
  gate.open()
  await outbox.settled()
  expect(broker.ids(slow)).toEqual([...ids, ...later])
  expect(broker.ids(quick[0])).toEqual(others)
  expect(broker.violations).toEqual([])
})

test('O10 stop settles the answered messages of a call that does not end', async () => {
  const gate = new Gate()
  const publisher = publishEach(async ({ key }) => {
    if (key === slow) await gate.pass()
  })
  const [hangs] = await publishAll(root, [
    ...messagesOf(slow, 1),
    ...quick.flatMap((key) => messagesOf(key, 2)),
  ])
  const subject = await RelayUnderTest.started(root, publisher, { batchSize: 1000 })
  await gate.reached()
  await subject.relay.stop({ timeoutMs: 300 })
  expect((await outbox.backlog()).map(({ id }) => id)).toEqual([hangs])
  gate.open()
})

test('O4 messages in flight are bounded by the batch, however many are slow', async () => {
  const gate = new Gate()
  const broker = new Broker()
  const publisher = broker.publisher({ ordering: 'per-key', respond: holding(gate) })
  const ids = await publishAll(
    root,
    quick.flatMap((key) => messagesOf(key, 3)),
  )
  await RelayUnderTest.started(root, publisher, { batchSize: 4 })
  await gate.reached()
  await publishAll(root, messagesOf(slow, 1))
  for (let round = 0; round < 20; round += 1) await outbox.parked()
  expect(broker.calls.flatMap(({ messages }) => messages).length).toBe(4)
  gate.open()
  await outbox.settled()
  expect(broker.firstIds().length).toBe(ids.length + 1)
})

test.for([
  { what: 'a call of a whole batch', messages: 100, batchSize: 100 },
  { what: 'a large call with room for others', messages: 250, batchSize: 1000 },
])(
  'O4 $what that continues answering is settled as a whole, however long it takes',
  async ({ messages, batchSize }) => {
    const ACCEPTED = { status: 'accepted' } as const
    await publishAll(root, messagesOf(slow, messages))
    const publisher: Publisher = {
      ordering: 'per-key',
      async publish(batch, { answered }) {
        for (const index of batch.keys()) {
          // A broker that needs 1.2 s for the batch.
          if (index % (messages / 10) === 0) await pause(120)
          answered?.(index, ACCEPTED)
        }
        return batch.map(() => ACCEPTED)
      },
    }
    const subject = await RelayUnderTest.started(root, publisher, { batchSize })
    await subject.hears('published')
    await outbox.settled()
    expect(subject.heard('published').map(({ count }) => count)).toEqual([messages])
  },
)
