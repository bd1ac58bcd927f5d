import { randomUUID } from 'node:crypto'
import { describe, expect, inject, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { createInbox, type InboxOutcome } from '@txbox/inbox'
import {
  PermanentError,
  createDeadLetters,
  publishEach,
  type OutboxMessage,
  type Publisher,
} from '@txbox/relay'
import { Gate } from '../../support/worlds/broker.ts'
import {
  MortalRelay,
  RELAY_STEPS,
  type Death,
  type RelayWitness,
} from '../../support/subjects/mortal-relay.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { randomFrom } from '../../support/worlds/random.ts'
import {
  RelayUnderTest,
  messagesOf,
  publishAll,
  publishTogether,
} from '../../support/subjects/relay-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
// On MySQL and MariaDB each relay keeps one connection for its leases.
const root = useRoot(target, mainKind(target), { max: 16 })
/** To repeat a run: TXBOX_TEST_SEED=1. What happens at the same time differs between runs of one seed. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? Math.trunc(Math.random() * 2 ** 31))
const MESSAGES = Number(process.env['TXBOX_TEST_MESSAGES'] ?? (inject('tier') === 'all' ? 500 : 240))

interface Content {
  readonly key: string | null
  readonly n: number
}
type Handler = (message: OutboxMessage, tx: TransactionHandle) => unknown

/** A publisher that handles each message by an inbox, as docs/relay.md describes. Its effects have a name of their own. */
class LocalHandling {
  readonly name = `local-${randomUUID()}`
  /** Attempts and outcomes of each message, in order. */
  readonly attempts: string[] = []
  readonly outcomes: InboxOutcome[] = []
  readonly publisher: Publisher

  constructor(handler: Handler = () => undefined, { through = root, concurrency = 10 } = {}) {
    const inbox = createInbox({ database: through.database, consumer: this.name })
    this.publisher = publishEach(
      async (message, { signal }) => {
        this.attempts.push(`${message.id} ${message.attempt}`)
        const handle = async (tx: TransactionHandle): Promise<void> => {
          await target.effect(tx, this.effectOf(message.json<Content>()))
          await handler(message, tx)
        }
        this.outcomes.push(await inbox.run(message, handle, { signal }))
      },
      { concurrency },
    )
  }

  effectOf({ key, n }: Content): string {
    return `${this.name} ${key} ${n}`
  }

  /** The committed effects, in their order: the number of each message of this key. */
  async effects(key: string | null): Promise<number[]> {
    const prefix = `${this.name} ${key} `
    const rows = await target.sql('select name from effects where name like ? order by seq', [`${prefix}%`])
    return rows.map(({ name }) => Number(String(name).slice(prefix.length)))
  }

  statuses(): string[] {
    return this.outcomes.map(({ status }) => status)
  }
}

const RETRY = { attempts: 3, delayMs: () => 5 }
const deadLetters = () => createDeadLetters({ database: root.database })

test('O4 O5 I2 a handler that throws leaves no effect: its message is tried again, is counted, becomes a dead letter, and its key goes on', async () => {
  const ids = await publishAll(root, [...messagesOf('a', 3), ...messagesOf('b', 2)])
  const local = new LocalHandling((message) => {
    if (message.id === ids[0]) throw new Error('the account is closed')
  })
  const subject = await RelayUnderTest.started(root, local.publisher, { retry: RETRY })
  await outbox.settled()
  expect(local.attempts.filter((attempt) => attempt.startsWith(ids[0]!))).toEqual(
    [1, 2, 3].map((attempt) => `${ids[0]} ${attempt}`),
  )
  expect(subject.heard('dead-lettered')).toMatchObject([{ id: ids[0], attempts: 3 }])
  expect(await local.effects('a')).toEqual([2, 3])
  expect(await local.effects('b')).toEqual([1, 2])
  const claims = await target.claims(local.name)
  expect(claims.map(({ key }) => key).toSorted()).toEqual(ids.slice(1).toSorted())
  const [dead] = await deadLetters().list()
  expect(dead).toMatchObject({ id: ids[0], attempts: 3, error: expect.stringContaining('account is closed') })
})

test('O5 I3 a dead letter that is redriven is handled once, because its failures left no claim', async () => {
  let isClosed = true
  const [id] = await publishAll(root, messagesOf('a', 1))
  const local = new LocalHandling(() => {
    if (isClosed) throw new PermanentError('the account is closed')
  })
  const subject = await RelayUnderTest.started(root, local.publisher, { retry: RETRY })
  await subject.hears('dead-lettered')
  isClosed = false
  await deadLetters().redrive({ ids: [id!] })
  await deadLetters().redrive({ ids: [id!] })
  await outbox.settled()
  expect(local.statuses()).toEqual(['processed'])
  expect(await local.effects('a')).toEqual([1])
})

describe('between the commit of the handler and the settlement', () => {
  const DEATHS: Record<string, Death> = {
    'before the call of the publisher returns': { step: 'publish', nth: 1, phase: 'answered' },
    'before it settles': { step: 'settle', nth: 1, phase: 'before' },
    'when it has settled, before the answer': { step: 'settle', nth: 1, phase: 'answered' },
    'before it settles a retried message': { step: 'settleParked', nth: 1, phase: 'before' },
  }
  for (const [when, death] of Object.entries(DEATHS)) {
    test(`O2 I3 when a relay is killed ${when}, each repeated delivery is a duplicate without a second effect`, async () => {
      const ids = await publishAll(root, messagesOf('a', 4))
      const refuseOnce = new Set(death.step === 'settleParked' ? ids.slice(0, 1) : [])
      const local = new LocalHandling(({ id }) => {
        if (refuseOnce.delete(id)) throw new Error('not yet')
      })
      const mortal = new MortalRelay('first', root.database, UNSEEN, death)
      const options = { owner: 'first', leaseMs: 60_000, retry: RETRY }
      await RelayUnderTest.started(mortal, mortal.publisher(local.publisher), options)
      await mortal.death
      await outbox.expireLeases('first')
      await RelayUnderTest.started(root, local.publisher, { owner: 'second', retry: RETRY })
      await outbox.settled()
      expect(await local.effects('a')).toEqual([1, 2, 3, 4])
      expect(local.statuses().filter((status) => status === 'processed').length).toBe(ids.length)
      // After the settlement nothing needs to be delivered again, but another message of the key may have been in flight.
      if (death.step !== 'settle' || death.phase === 'before') expect(local.statuses()).toContain('duplicate')
      expect(await deadLetters().list()).toEqual([])
    })
  }

  test('O10 I3 when a relay is stopped there, the next relay delivers again, and the inbox refuses the duplicate', async () => {
    await publishAll(root, messagesOf('a', 3))
    const local = new LocalHandling()
    const gate = new Gate()
    const publisher: Publisher = {
      async publish(messages, { signal }) {
        const results = await local.publisher.publish(messages, { signal })
        await gate.pass()
        return results
      },
    }
    const first = await RelayUnderTest.started(root, publisher)
    await gate.reached()
    expect(await local.effects('a')).toEqual([1])
    await first.relay.stop({ timeoutMs: 300 })
    await RelayUnderTest.started(root, local.publisher)
    await outbox.settled()
    gate.open()
    expect(local.statuses()).toEqual(['processed', 'duplicate', 'processed', 'processed'])
    expect(await local.effects('a')).toEqual([1, 2, 3])
  })

  test('I10 a COMMIT of the handler whose answer is lost costs no attempt, and is a duplicate afterwards', async () => {
    const { proxy, through } = await rootThroughProxy(target, mainKind(target))
    await publishAll(root, messagesOf('a', 2))
    const local = new LocalHandling(
      ({ attempt }) => {
        if (attempt === 1 && local.outcomes.length === 0) proxy.cutAfter(/commit/i)
      },
      { through },
    )
    const subject = await RelayUnderTest.started(root, local.publisher, {
      retry: { ...RETRY, attempts: 1 },
    })
    await outbox.settled()
    expect(local.statuses()).toEqual(['duplicate', 'processed'])
    expect(await local.effects('a')).toEqual([1, 2])
    expect(subject.heard('dead-lettered')).toEqual([])
  })
})

test('O6 a database that the handlers cannot reach makes no dead letter, and costs no attempts', async () => {
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const local = new LocalHandling(() => undefined, { through })
  const outage = proxy.refuse()
  const ids = await publishAll(root, [...messagesOf('a', 2), ...messagesOf('b', 1)])
  const subject = await RelayUnderTest.started(root, local.publisher, { retry: { ...RETRY, attempts: 1 } })
  await subject.hears('unavailable')
  outage.over()
  await outbox.settled()
  expect(subject.heard('dead-lettered')).toEqual([])
  expect(local.attempts.filter((attempt) => !attempt.endsWith(' 1'))).toEqual([])
  expect(local.statuses().filter((status) => status === 'processed').length).toBe(ids.length)
  expect(await local.effects('a')).toEqual([1, 2])
})

test(`O1 O3 I2 I3 ${MESSAGES} messages while handlers fail and relays die at random: each effect happens once, in order per key, seed ${SEED}`, async () => {
  const random = randomFrom(SEED)
  const keys = Array.from({ length: 12 }, (_, n) => (n === 0 ? undefined : `key-${n}`))
  const counts = new Map<string | undefined, number>()
  const messages = Array.from({ length: MESSAGES }, () => {
    const key = random() < 0.2 ? 'key-1' : keys[Math.floor(random() * keys.length)]
    counts.set(key, (counts.get(key) ?? 0) + 1)
    return messagesOf(key, 1, counts.get(key))[0]!
  })
  const hopeless = new Set<string>()
  const local = new LocalHandling(({ id }) => {
    if (hopeless.has(id)) throw new PermanentError('never')
    if (random() < 0.1) throw new Error('not yet')
  })
  const retry = { attempts: 1000, delayMs: () => Math.ceil(random() * 10) }
  const half = MESSAGES / 2
  const ids = await publishTogether(root, messages.slice(0, half))
  for (const id of ids) if (random() < 0.03) hopeless.add(id)
  let dead = 0
  for (let lives = 1; lives <= 12; lives += 1) {
    const relay = mortalRelay(`relay-${lives}`, random)
    const options = { owner: relay.owner, leaseMs: 60_000, batchSize: 1 + Math.floor(random() * 20), retry }
    const subject = await RelayUnderTest.started(relay, relay.publisher(local.publisher), options)
    if (lives === 6) ids.push(...(await publishTogether(root, messages.slice(half))))
    let isDead = false
    void relay.death.then(() => (isDead = true))
    await emptied(() => isDead)
    await subject.relay.stop({ timeoutMs: isDead ? 0 : 5000 })
    if (isDead) dead += 1
    await outbox.expireLeases()
  }
  if (ids.length < MESSAGES) ids.push(...(await publishTogether(root, messages.slice(half))))
  await RelayUnderTest.started(root, local.publisher, { owner: 'last', retry })
  await emptied()

  const buried = (await deadLetters().list({ limit: 1000 })).map(({ id }) => id)
  expect(buried.toSorted()).toEqual([...hopeless].toSorted())
  for (const key of new Set(messages.map((message) => message.key))) {
    const expected = messages.flatMap((message, n) =>
      message.key === key && !hopeless.has(ids[n]!) ? [(message.payload as Content).n] : [],
    )
    const happened = await local.effects(key ?? null)
    expect(key === undefined ? happened.toSorted((a, b) => a - b) : happened, key).toEqual(expected)
  }
  expect(dead).toBeGreaterThan(0)
  expect(local.statuses()).toContain('duplicate')
}, 240_000)

/** Resolves when no message waits. Longer than usual: after two deaths in a row, messages are tried one at a time (O9). */
async function emptied(or = (): boolean => false): Promise<void> {
  await until(
    async () => or() || (await outbox.backlogSize()) === 0,
    async () => `the backlog is empty; there are ${await outbox.backlogSize()} messages`,
    100_000,
  )
}

/** A relay that dies at a random step. */
function mortalRelay(owner: string, random: () => number): MortalRelay {
  const step = RELAY_STEPS[Math.floor(random() * RELAY_STEPS.length)]!
  const phase = random() < 0.5 ? 'before' : 'answered'
  return new MortalRelay(owner, root.database, UNSEEN, { step, nth: 1 + Math.floor(random() * 6), phase })
}

/** The tests look at the effects, not at the steps. */
const UNSEEN: RelayWitness = {
  reads: () => undefined,
  settles: () => undefined,
  now: () => performance.now(),
  died: () => undefined,
}
