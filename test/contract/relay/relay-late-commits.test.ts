import { expect, test } from 'vitest'
import { Broker } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  publishIn,
  publishTogether,
  RelayUnderTest,
} from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const [firstKey, other] = keysOfOneShard(2) as [string, string]

/** More messages than a relay publishes of a shard before it determines where its reads begin. */
const MANY = 4000

/** Publishes in transactions of a thousand messages. */
async function publishMany(from: number): Promise<string[]> {
  const ids: string[] = []
  for (let done = 0; done < MANY; done += 1000)
    ids.push(...(await publishTogether(root, messagesOf(other, 1000, from + done))))
  return ids
}

test('O3 O12 a transaction that commits thousands of messages later is not skipped, although others were published meanwhile', async () => {
  const broker = new Broker()
  const publisher = broker.publisher({ ordering: 'per-key' })
  const subject = await RelayUnderTest.started(root, publisher, { batchSize: 500 })
  // The messages are in the same shard; the first number is drawn before all others.
  const first = await root.begin()
  const late = await publishIn(root, first, messagesOf(firstKey, 2))
  const early = await publishMany(1)
  const second = await root.begin()
  const later = await publishIn(root, second, messagesOf(other, 2, MANY + 1))
  await broker.received(MANY)
  const meanwhile = await publishMany(MANY + 3)
  await broker.received(2 * MANY)
  await second.commit()
  await broker.received(2 * MANY + 2)
  await first.commit()
  await broker.received(2 * MANY + 4)
  await subject.relay.drain()
  expect(await outbox.backlog()).toEqual([])
  expect(new Set(broker.firstIds())).toEqual(new Set([...late, ...early, ...later, ...meanwhile]))
  expect(broker.firstIds(firstKey)).toEqual(late)
})
