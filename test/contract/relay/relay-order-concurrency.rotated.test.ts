import { expect, onTestFinished, test } from 'vitest'
import { TransactionConflictError } from '@txbox/core'
import { Broker, type Respond } from '../../support/worlds/broker.ts'
import { randomFrom } from '../../support/worlds/random.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { publishIn, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { ISOLATIONS, mainRoot, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const SEED = 20_260_101
const AGGREGATES = Array.from({ length: 12 }, (_, n) => `order-${n}`)
const PRODUCERS = 4
/** The number of relays that are started, one after another, while the producers work. */
const RELAYS = 6

const kind = mainRoot(target)
for (const isolation of ISOLATIONS) {
  test(`O3 the order holds when aggregates are locked first, while relays come and go: ${kind.name}, ${isolation}, seed ${SEED}`, async () => {
    const producing = target.open(kind, { isolation, max: PRODUCERS })
    const relaying = target.open(kind, { isolation, max: 8 })
    onTestFinished(async () => void (await Promise.all([producing.close(), relaying.close()])))
    await target.sql('delete from counters')
    for (const name of AGGREGATES) await target.sql('insert into counters (name, n) values (?, 0)', [name])

    const broker = new Broker()
    const random = randomFrom(SEED)
    const closing = new AbortController()
    const producers = Array.from({ length: PRODUCERS }, (_, n) =>
      produce(producing, randomFrom(SEED + n + 1), closing.signal),
    )
    // Three relays at a time. The oldest is stopped when the newest has acquired shards.
    const relays: RelayUnderTest[] = []
    try {
      for (let n = 0; n < RELAYS; n += 1) {
        const owner = `relay-${n}`
        const ordering = n % 2 === 0 ? 'none' : 'per-key'
        const publisher = broker.publisher({ owner, ordering, respond: unreliable(random) })
        const retry = { attempts: 1000, delayMs: () => 2 }
        const relay = await RelayUnderTest.started(relaying, publisher, {
          batchSize: 1 + n * 2,
          retry,
          leaseMs: 1500,
        })
        relays.push(relay)
        await relay.hears('lease-acquired', 3)
        if (relays.length > 2) await relays.shift()!.relay.stop()
      }
    } finally {
      closing.abort()
      await Promise.all(producers)
    }
    await Promise.all(relays.map(({ relay }) => relay.stop()))
    // A message that waits for another attempt is not due when drain reads.
    const last = await RelayUnderTest.started(relaying, broker.publisher({ owner: 'last' }))
    await outbox.settled()
    await last.relay.stop()

    for (const key of AGGREGATES) {
      const [row] = await target.sql('select n from counters where name = ?', [key])
      const seen = [
        ...new Set(
          broker.log.flatMap(({ message }) => (message.key === key ? [message.json<number>()] : [])),
        ),
      ]
      expect(seen, key).toEqual(Array.from({ length: Number(row?.['n']) }, (_, n) => n + 1))
    }
    expect(new Set(broker.log.map(({ owner }) => owner)).size).toBeGreaterThanOrEqual(RELAYS / 2)
    expect(broker.violations).toEqual([])
  })
}

/** Each transaction changes some aggregates and publishes the changes; some transactions are rolled back. */
async function produce(root: Root, random: () => number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const transaction = await root.begin()
    try {
      // All transactions use the same order; otherwise they would deadlock.
      const chosen = AGGREGATES.filter(() => random() < 0.15)
      for (const name of chosen) {
        const messages = 1 + Math.floor(random() * 3)
        await transaction.exec('update counters set n = n + ? where name = ?', [messages, name])
        const [row] = await transaction.exec('select n from counters where name = ?', [name])
        const last = Number(row?.['n'])
        await publishIn(
          root,
          transaction,
          Array.from({ length: messages }, (_, n) => ({
            topic: 't',
            key: name,
            payload: last - messages + n + 1,
          })),
        )
      }
      await (random() < 0.2 ? transaction.rollback() : transaction.commit())
    } catch (error) {
      await transaction.rollback()
      if (!isConflict(error)) throw error
    }
  }
}

/** A broker that refuses some messages, and is sometimes unavailable. */
function unreliable(random: () => number): Respond {
  return (call) => {
    const chance = random()
    if (chance < 0.02) throw new Error('down')
    const refused = new Set<string>()
    const results = call.messages.map((message) => {
      if (message.key !== undefined && refused.has(message.key)) return { status: 'skipped' } as const
      if (random() > 0.05) return call.accept(message)
      if (message.key !== undefined) refused.add(message.key)
      return { status: 'rejected', error: new Error('refused'), retryable: true } as const
    })
    if (chance > 0.98) throw new Error('the answer was lost')
    return results
  }
}

/** Repeats the test's own statements too: at REPEATABLE READ a statement that waited for a row gets a conflict. */
function isConflict(error: unknown): boolean {
  const code = typeof error === 'object' && error !== null ? String(Reflect.get(error, 'code')) : ''
  return (
    error instanceof TransactionConflictError ||
    ['40001', '40P01', 'ER_LOCK_DEADLOCK', 'ER_CHECKREAD'].includes(code)
  )
}
