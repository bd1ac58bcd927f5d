import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { TransactionConflictError } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { Broker } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { randomFrom } from '../../support/worlds/random.ts'
import { RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { ISOLATIONS, kindsOfTier, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const SEED = 20_260_103
const PRODUCERS = 4
const TRANSACTIONS = 30
const HOT_KEYS = ['hot-1', 'hot-2']

for (const isolation of ISOLATIONS) {
  for (const kind of kindsOfTier(target)) {
    test(`O3 with lockKeys hot keys are published in the order of the commits, without a lock on the aggregate: ${kind.name}, ${isolation}, seed ${SEED}`, async () => {
      const producing = target.open(kind, { isolation, max: PRODUCERS })
      // The relay has no part in the caller's isolation level.
      const relaying = target.open(kind, { max: 6 })
      await Promise.all([producing.ready?.(), relaying.ready?.()])
      onTestFinished(async () => void (await Promise.all([producing.close(), relaying.close()])))
      await target.sql('delete from counters')
      for (const key of HOT_KEYS) await target.sql('insert into counters (name, n) values (?, 0)', [key])

      const broker = new Broker()
      const relay = await RelayUnderTest.started(relaying, broker.publisher())
      const commits: string[][] = [[], []]
      await Promise.all(
        Array.from({ length: PRODUCERS }, (_, n) =>
          produce(producing, `producer-${n}`, randomFrom(SEED + n), commits),
        ),
      )
      await outbox.settled()
      await relay.relay.stop()
      for (const [n, key] of HOT_KEYS.entries()) {
        expect(commits[n]!.length, key).toBeGreaterThan(TRANSACTIONS)
        expect(broker.firstIds(key), key).toEqual(commits[n])
      }
    })
  }
}

/**
 * Publishes first and works afterwards, which without lockKeys puts numbers and commits into different orders. Each
 * transaction then changes the row of its key, whose lock orders the commits, and notes its place in that order.
 */
async function produce(
  root: Root,
  name: string,
  random: () => number,
  commits: readonly string[][],
): Promise<void> {
  const publisher = createOutbox({ database: root.database, lockKeys: true })
  for (let round = 0; round < TRANSACTIONS; round += 1) {
    const n = random() < 0.5 ? 0 : 1
    const key = HOT_KEYS[n]!
    const id = `${name} ${round}`
    const isTwo = random() < 0.5
    const ids = isTwo ? [`${id} a`, `${id} b`] : [id]
    for (;;) {
      const transaction = await root.begin()
      try {
        if (isTwo) {
          const messages = ids.map((each) => ({ topic: 't', id: each, key, payload: round }))
          await publisher.publish(transaction.tx, messages)
        } else {
          await publisher.publish(transaction.tx, { topic: 't', id, key, payload: round })
        }
        await pause(random() * 8)
        await transaction.exec('update counters set n = n + 1 where name = ?', [key])
        const place = commits[n]!.length
        commits[n]!.push(...ids)
        try {
          await transaction.commit()
        } catch (error) {
          commits[n]!.splice(place, ids.length)
          throw error
        }
        break
      } catch (error) {
        await transaction.rollback().catch(() => undefined)
        if (!isConflict(error)) throw error
      }
    }
  }
}

/** Also of the test's own statements: at REPEATABLE READ, PostgreSQL refuses to change a row after a wait. */
function isConflict(error: unknown): boolean {
  const code = typeof error === 'object' && error !== null ? String(Reflect.get(error, 'code')) : ''
  return error instanceof TransactionConflictError || code === '40001'
}
