import { setTimeout as pause } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import type { QueueMessage } from '@txbox/core/ports'
import { randomFrom } from '../support/worlds/random.ts'
import { QUEUE, QueueStoreUnderTest, messageOf } from '../support/subjects/queue-store-under-test.ts'
import { mainKind, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()

const KEYS = ['hot', 'a', 'b', 'c', 'd', 'e', 'f', undefined] as const
const RECEIVERS = 5
const RUN_MS = inject('tier') === 'all' ? 5000 : 1500
/** A run goes on until so many messages were handled, however busy the machine is. */
const LEAST_MESSAGES = inject('tier') === 'all' ? 100 : 20
const VISIBILITY_MS = 80
/** For what is left when the senders have stopped: no handler is late then, however busy the machine is. */
const LONG_VISIBILITY_MS = 10_000

/** To repeat a run: TXBOX_TEST_SEED=1. What happens at the same time differs between runs of one seed. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? Math.trunc(Math.random() * 2 ** 31))

type Random = () => number

const chance = (random: Random, share: number): boolean => random() < share
const oneOf = <T>(random: Random, values: readonly T[]): T => values[Math.floor(random() * values.length)]!

/** Keys that have messages, none of which a receiver would look at. */
const STUCK = `select topic, shard, order_key from txbox.queue where order_key is not null
  group by topic, shard, order_key having count(due_at) = 0`

test(`Q3 Q7 Q8 Q20 whatever senders and receivers do at the same time, each message has one effect, in order, and no key is stuck, seed ${SEED}`, async () => {
  // Each sender may hold a connection, and one more lets the senders go on.
  const senders = target.open(mainKind(target), { max: KEYS.length + 1 })
  const { ports } = new QueueStoreUnderTest(senders)
  const roots = Array.from({ length: RECEIVERS }, () => target.open(mainKind(target), { max: 4 }))
  const queues = roots.map((root) => new QueueStoreUnderTest(root))
  await target.sql('create table handled (n bigserial, id text primary key, key text)')
  let sending = true
  const sent = new Map<string, { readonly key: string | undefined; readonly inOrder: boolean }>()
  const buried = new Set<string>()
  /** The keys whose work is in an open transaction. */
  const working = new Map<string, string>()
  const problems: string[] = []
  let ended = 0

  /** One sender for each key, so that the order of its messages is known. */
  async function send(key: string | undefined, random: Random): Promise<void> {
    for (let n = 0; sending; n++) {
      const inOrder = chance(random, 0.8)
      const messages = Array.from({ length: oneOf(random, [1, 1, 3]) }, (_, m) =>
        messageOf(key, { id: `${key}-${n}-${m}` }),
      )
      for (const { id } of messages) sent.set(id, { key, inOrder })
      if (inOrder) {
        await ports.transact((_, session) => ports.queueSender.send(session, messages), {})
      } else {
        // A number that commits late, after higher ones.
        const late = await senders.begin()
        await ports.queueSender.send(await ports.bind(late.tx), messages)
        const [next] = [messageOf(key, { id: `${key}-${n}-next` })]
        sent.set(next.id, { key, inOrder: true })
        await ports.transact((_, session) => ports.queueSender.send(session, [next]), {})
        await pause(random() * 80)
        if (chance(random, 0.2)) {
          for (const { id } of messages) sent.delete(id)
          await late.rollback()
        } else {
          await late.commit()
        }
      }
      await pause(random() * (key === 'hot' ? 70 : 150))
    }
  }

  /** Settles in a transaction with the effect, which may last longer than the visibility timeout. */
  async function work(index: number, message: QueueMessage, random: Random): Promise<void> {
    const transaction = await roots[index]!.begin()
    const session = await queues[index]!.ports.bind(transaction.tx)
    const [valid] = await queues[index]!.store.settle(session, [message])
    if (valid !== true) return transaction.rollback()
    if (message.ordered) {
      const other = working.get(message.key!)
      if (other !== undefined) problems.push(`${message.id} is handled while ${other} is`)
      working.set(message.key!, message.id)
    }
    await transaction.exec('insert into handled (id, key) values (?, ?)', [message.id, message.key ?? null])
    if (chance(random, 0.5)) await pause(random() * 150)
    if (message.ordered) working.delete(message.key!)
    if (sending && chance(random, 0.15)) return transaction.rollback()
    await transaction.commit()
    ended += 1
  }

  async function handle(index: number, message: QueueMessage, random: Random): Promise<void> {
    const { store } = queues[index]!
    const dice = random()
    if (dice < 0.06 && sending) return
    if (dice < 0.12) await pause(90)
    if (dice > 0.96) {
      if (await store.bury(QUEUE, message, 'buried')) buried.add(message.id)
    } else if (dice > 0.86) {
      const giveback = { delayMs: oneOf(random, [0, 0, 40]), error: 'again', counted: chance(random, 0.5) }
      await store.giveBack(message, giveback)
    } else {
      if (chance(random, 0.3)) await store.extend([message], sending ? 60 : LONG_VISIBILITY_MS)
      await work(index, message, random)
    }
  }

  async function receive(index: number, random: Random): Promise<void> {
    while (
      sending ||
      (await target.sql('select from txbox.queue where dead_at is null limit 1')).length > 0
    ) {
      const attempt = chance(random, 0.1) ? { id: `${index}-${random()}`, retentionMs: 1000 } : undefined
      const visibilityTimeoutMs = sending ? VISIBILITY_MS : LONG_VISIBILITY_MS
      const how = { limit: oneOf(random, [1, 2, 4]), visibilityTimeoutMs, maxReceives: 1000, attempt }
      const received = await queues[index]!.receive(how)
      if (received.length === 0) await pause(5)
      if (chance(random, 0.5)) await Promise.all(received.map((message) => handle(index, message, random)))
      else for (const message of received) await handle(index, message, random)
    }
  }

  async function watch(): Promise<void> {
    while (sending) {
      for (const { order_key } of await target.sql(STUCK)) problems.push(`${String(order_key)} is stuck`)
      await pause(20)
    }
  }

  async function run(): Promise<void> {
    await pause(RUN_MS)
    await until(
      async () => ended > LEAST_MESSAGES,
      () => `${LEAST_MESSAGES} handled messages, not ${ended}`,
    )
    sending = false
  }

  const all = Promise.all([
    ...KEYS.map((key, n) => send(key, randomFrom(SEED + n))),
    ...roots.map((_, index) => receive(index, randomFrom(SEED + 100 + index))),
    watch(),
    run(),
  ])
  await all.finally(() => (sending = false))

  const handled = await target.sql('select id, key from handled order by n')
  const ids = handled.map(({ id }) => id as string)
  expect(problems).toEqual([])
  expect(new Set([...ids, ...buried])).toEqual(new Set(sent.keys()))
  expect(ids.length + buried.size).toBe(sent.size)
  // The order of the effects is that of the sends, except for what was committed late.
  for (const key of KEYS) {
    if (key === undefined) continue
    const expected = [...sent].flatMap(([id, message]) =>
      message.key === key && message.inOrder && !buried.has(id) ? [id] : [],
    )
    expect(ids.filter((id) => expected.includes(id))).toEqual(expected)
  }
  await Promise.all([senders, ...roots].map((root) => root.close()))
}, 120_000)
