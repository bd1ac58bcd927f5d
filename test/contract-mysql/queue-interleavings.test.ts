import { setTimeout as pause } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import type { QueueMessage } from '@txbox/core/ports'
import { randomFrom } from '../support/worlds/random.ts'
import { QUEUE, QueueStoreUnderTest, messageOf } from '../support/subjects/queue-store-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })

const KEYS = ['hot', 'a', 'b', 'c', undefined] as const
const RUN_MS = inject('tier') === 'all' ? 2500 : 1500
/** A run goes on until so many messages were sent, however busy the machine is. */
const LEAST_MESSAGES = 50
const VISIBILITY_MS = 60
/** For what is left when the senders have stopped: no handler is late then, however busy the machine is. */
const LONG_VISIBILITY_MS = 10_000
/** To repeat a run: TXBOX_TEST_SEED=1. What happens at the same time differs between runs of one seed. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? Math.trunc(Math.random() * 2 ** 31))

/** Keys that have messages, none of which a receiver would look at, and keys with several messages in flight. */
const BROKEN = `
select cast(order_key as char) as \`key\`, cast(count(due_at) as char) as due,
  cast(sum(receipt is not null and due_at > utc_timestamp(6)) as char) as flights
from txbox_queue
where order_key is not null
group by topic, shard, order_key
having count(due_at) = 0 or sum(receipt is not null and due_at > utc_timestamp(6)) > 1`

test(`Q3 Q20 whatever happens at the same time, no key is stuck, none has two messages in flight, and each message ends once, seed ${SEED}`, async () => {
  const queue = new QueueStoreUnderTest(root)
  const sent = new Set<string>()
  const ended: string[] = []
  const problems: unknown[] = []
  let running = true

  async function send(random: () => number): Promise<void> {
    while (running) {
      const messages = Array.from({ length: 1 + Math.floor(random() * 3) }, () =>
        messageOf(KEYS[Math.floor(random() * KEYS.length)]),
      )
      const transaction = await root.begin()
      await queue.ports.queueSender.send(await queue.ports.bind(transaction.tx), messages)
      if (random() < 0.3) await pause(random() * 80)
      if (random() < 0.2) await transaction.rollback()
      else {
        await transaction.commit()
        for (const { id } of messages) sent.add(id)
      }
      await pause(random() * 120)
    }
  }

  async function settle(message: QueueMessage, random: () => number): Promise<void> {
    const transaction = await root.begin()
    const session = await queue.ports.bind(transaction.tx)
    const [valid] = await queue.store.settle(session, [message])
    if (random() < 0.2) await pause(random() * 2 * VISIBILITY_MS)
    if (valid !== true || (running && random() < 0.2)) return transaction.rollback()
    await transaction.commit()
    ended.push(message.id)
  }

  async function handle(message: QueueMessage, random: () => number): Promise<void> {
    const chance = random()
    if (chance < 0.1 && running) return
    if (chance < 0.2) await pause(random() * 1.5 * VISIBILITY_MS)
    if (chance > 0.97) {
      if (await queue.store.bury(QUEUE, message, 'buried')) ended.push(message.id)
    } else if (chance > 0.8) {
      await queue.store.giveBack(message, { delayMs: random() * 30, error: 'again', counted: random() < 0.5 })
    } else if (chance > 0.7 && running) {
      await queue.store.extend([message], running ? VISIBILITY_MS : LONG_VISIBILITY_MS)
    } else {
      await settle(message, random)
    }
  }

  async function receive(random: () => number): Promise<void> {
    while (
      running ||
      (await target.sql('select 1 from txbox_queue where dead_at is null limit 1')).length > 0
    ) {
      const limit = 1 + Math.floor(random() * 4)
      const visibilityTimeoutMs = running ? VISIBILITY_MS : LONG_VISIBILITY_MS
      const received = await queue.receive({ limit, visibilityTimeoutMs, maxReceives: 1000 })
      if (received.length === 0) await pause(5)
      await Promise.all(received.map((message) => handle(message, random)))
    }
  }

  async function watch(): Promise<void> {
    while (running) {
      problems.push(...(await target.sql(BROKEN)))
      await pause(10)
    }
  }

  async function run(): Promise<void> {
    await pause(RUN_MS)
    await until(
      async () => sent.size > LEAST_MESSAGES,
      () => `${LEAST_MESSAGES} messages, not ${sent.size}`,
    )
    running = false
  }

  await Promise.all([
    ...[1, 2, 3].map((n) => send(randomFrom(SEED + n))),
    ...[11, 12, 13, 14].map((n) => receive(randomFrom(SEED + n))),
    watch(),
    run(),
  ]).finally(() => (running = false))

  expect(problems).toEqual([])
  expect(ended.length).toBe(sent.size)
  expect(new Set(ended)).toEqual(sent)
}, 120_000)
