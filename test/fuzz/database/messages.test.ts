import * as fc from 'fast-check'
import { expect } from 'vitest'
import type { NewMessage } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createDeadLetters, createRelay } from '@txbox/relay'
import { Broker } from '../../support/worlds/broker.ts'
import { fuzz } from '../../support/worlds/fuzz.ts'
import {
  anything,
  hostileJson,
  hostileRecord,
  hostileText,
  storableText,
  withOwnMembers,
} from '../../support/worlds/hostile-values.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { expectRefusal, outcomeOfAsync } from '../../support/worlds/refusals.ts'
import { outboxOf, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../../support/engines/target.ts'
import { OBEYED, txboxHere } from '../../support/subjects/txbox-in-process.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, target.kinds.find(({ library }) => library !== 'kysely') ?? target.kinds[0]!)

const headers = fc
  .array(
    fc.tuple(
      hostileText(),
      hostileText().map((text) => text.toWellFormed().slice(0, 4000)),
    ),
    { maxLength: 3 },
  )
  .map((list) => withOwnMembers(list.map(([name, value]) => [name.toWellFormed().slice(0, 4000), value])))

/** Valid, but unusual messages for publish. */
const good = fc.record(
  {
    topic: storableText(),
    payload: fc.oneof(hostileJson(), fc.uint8Array()),
    key: storableText(),
    type: storableText(),
    correlationId: storableText(),
    headers,
  },
  { requiredKeys: ['topic', 'payload'] },
)
const hostile = hostileRecord({
  topic: hostileText(),
  payload: anything(),
  key: hostileText(),
  headers: fc.dictionary(hostileText(), hostileText(), { maxKeys: 2 }),
})

fuzz(
  'O13 a list is stored as a whole, or not at all; stored messages are delivered unchanged',
  25,
  fc.tuple(fc.array(good, { maxLength: 6 }), fc.option(hostile)),
  async ([messages, odd]) => {
    await outbox.clear()
    const named = messages.map((message, n) => ({ ...message, id: `m${n}` }))
    const list = odd === null ? named : [...named, { ...odd, id: 'odd' }]
    const transaction = await root.begin()
    const outcome = await outcomeOfAsync(() => outboxOf(root).publish(transaction.tx, list as NewMessage[]))
    await transaction.commit()
    if ('thrown' in outcome) {
      expectRefusal(outcome.thrown, 'TXBOX_INVALID_MESSAGE')
      expect(odd, 'without the odd one, all is good').not.toBeNull()
      expect(await outbox.backlogSize(), 'nothing half written').toBe(0)
      return
    }
    const broker = new Broker()
    const { relay } = new RelayUnderTest(root, broker.publisher())
    expect(await relay.drain()).toEqual({ published: list.length, parked: 0, deadLettered: 0 })
    await relay.stop()
    const received = new Map(broker.log.map(({ message }) => [message.id, message]))
    for (const sent of named) {
      const { topic, key, type, correlationId, headers: heard, payload } = received.get(sent.id)!
      expect({ topic, key, type, correlationId, headers: Object.entries(heard) }).toEqual({
        topic: sent.topic,
        key: sent.key,
        type: sent.type,
        correlationId: sent.correlationId,
        headers: Object.entries(sent.headers ?? {}),
      })
      const bytes =
        sent.payload instanceof Uint8Array ? sent.payload : Buffer.from(JSON.stringify(sent.payload))
      expect(Buffer.from(payload).equals(bytes)).toBe(true)
    }
  },
)

const keyed = fc.oneof(hostileText(), fc.array(hostileText(), { minLength: 1, maxLength: 3 }), anything())

fuzz(
  'a message of any key runs once, or is refused with nothing stored',
  60,
  fc.tuple(keyed, hostileRecord({ correlationId: hostileText() })),
  async ([key, rest]) => {
    const consumer = `c${Math.random()}`
    const inbox = createInbox({ database: root.database, consumer, key: () => key as string })
    const message = { id: 'x', ...rest } as never
    const first = await outcomeOfAsync(() => inbox.run(message, () => 1))
    if ('thrown' in first) {
      expectRefusal(first.thrown, 'TXBOX_INVALID_MESSAGE')
      expect(await target.claims(consumer)).toEqual([])
      return
    }
    expect(first.result.status).toBe('processed')
    expect((await inbox.run(message, () => 1)).status).toBe('duplicate')
    expect((await inbox.run({ id: 'x' }, () => 1)).status).toBe('duplicate')
    expect(await target.claims(consumer)).toHaveLength(1)
  },
)

const ids = fc.array(fc.oneof({ weight: 5, arbitrary: hostileText() }, anything()), { maxLength: 3 })
const selection = fc.oneof(
  hostileRecord({ ids, topic: hostileText(), type: hostileText(), key: hostileText() }),
  anything(),
)

fuzz('dead letters are selected by anything, or the selection is refused', 60, selection, async (chosen) => {
  const letters = createDeadLetters({ database: root.database })
  for (const call of [
    () => letters.list(chosen as object),
    () => letters.redrive(chosen as object),
    () => letters.discard(chosen as object),
  ]) {
    const outcome = await outcomeOfAsync<unknown>(call)
    if ('thrown' in outcome) expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
    else expect(outcome.result).toEqual([])
  }
})

const word = hostileText().map((text) => text.replaceAll('\0', '').toWellFormed())
const commands = fc.oneof(
  fc
    .tuple(fc.constantFrom('list', 'redrive', 'discard'), fc.constantFrom('--topic', '--key', '--type'), word)
    .map((all) => ['dead-letters'].concat(all)),
  word.map((id) => ['dead-letters', 'show', '--', id]),
  fc
    .array(word, { minLength: 1, maxLength: 3 })
    .map((all) => ['dead-letters', 'discard', '--yes', '--'].concat(all)),
)

fuzz('N2 the command accepts any id and any filter', 20, commands, async (args) => {
  const { code, stdout, stderr } = await txboxHere(args, outbox.url())
  expect([0, 1, 2]).toContain(code)
  expect(OBEYED.test(stdout + stderr), JSON.stringify(stdout + stderr)).toBe(false)
  expect(stderr).not.toMatch(/\n {4}at /)
  for (const line of stderr.split('\n')) expect(line.length).toBeLessThanOrEqual(2200)
})

/** Invalid answers of a publisher. */
const answer = fc.oneof(
  anything(),
  hostileRecord({
    status: fc.constantFrom('accepted', 'rejected', 'skipped', 'x'),
    error: anything(),
    retryable: fc.constantFrom(true, false, 'yes', null),
    retryAfterMs: fc.oneof(fc.double(), fc.constantFrom(-1, 1e308, Number.NaN, '5')),
    counted: fc.constantFrom(true, false, 0),
  }),
)

fuzz(
  'no answer of a publisher loses a message',
  20,
  fc.tuple(answer, fc.constantFrom('none' as const, 'per-key' as const)),
  async ([given, ordering]) => {
    await outbox.clear()
    const transaction = await root.begin()
    await outboxOf(root).publish(transaction.tx, [
      { topic: 't', key: 'a', id: 'odd', payload: 1 },
      { topic: 't', key: 'b', id: 'beside', payload: 2 },
    ])
    await transaction.commit()
    let asked = 0
    const accepted = new Set<string>()
    const relay = createRelay({
      database: root.database,
      logger: false,
      pollIntervalMs: { min: 1, max: 5 },
      retry: { attempts: 2, delayMs: () => 1 },
      publisher: {
        ordering,
        publish: (messages) => {
          asked += 1
          const isOdd = asked === 1
          for (const { id } of messages) if (!isOdd || id !== 'odd') accepted.add(id)
          const answers = messages.map(({ id }) => (isOdd && id === 'odd' ? given : { status: 'accepted' }))
          return Promise.resolve(answers as never)
        },
      },
    })
    await relay.start()
    // A message that waits for its next attempt, however late that is, is not lost.
    await until(
      async () => accepted.has('beside') && (await outbox.backlog()).length === 0,
      () => 'the relay has taken both out of the outbox',
    )
    await relay.stop()
    expect(accepted.has('beside')).toBe(true)
    const isAccepted = statusOf(given) === 'accepted'
    const kept = [...(await outbox.backlog()), ...(await outbox.parked())].map(({ id }) => id)
    expect(isAccepted || accepted.has('odd') || kept.includes('odd'), 'published, or still there').toBe(true)
  },
)

/** The status of an answer, which may be anything: nothing when reading the status throws. */
function statusOf(given: unknown): unknown {
  try {
    return (given as { status?: unknown } | null | undefined)?.status
  } catch {
    return undefined
  }
}
