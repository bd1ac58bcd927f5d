import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { beforeEach, expect, inject, test } from 'vitest'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { disconnected, Program } from '../support/worlds/program.ts'
import { randomFrom } from '../support/worlds/random.ts'
import { useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import type { ConsumerConfig } from './programs/consumer.ts'
import type { ProducerConfig } from './programs/producer.ts'
import type { RelayConfig } from './programs/relay.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const KEYS = ['a', 'b', 'c', 'd', 'e']
const SEED = 1
const KILLS = inject('tier') === 'all' ? 14 : 7
/** The programs work until the last kill, and are then killed. */
const TRANSACTIONS = Number.MAX_SAFE_INTEGER

beforeEach(async () => {
  await target.sql(`delete from ${target.outboxTable.replace(/outbox$/, 'inbox')}`)
  await target.sql('delete from effects')
  await target.sql('delete from counters')
  for (const key of KEYS) await target.sql('insert into counters (name, n) values (?, 0)', [key])
})

test(`O1 O2 O3 I2 when producers, relays and the consumer are killed at random, each message has one effect, in order (seed ${SEED})`, async () => {
  const random = randomFrom(SEED)
  const log = new DeliveryLog()
  const acknowledged = path.join(log.folder, 'acknowledged')
  let programs = 0
  const base = { url: outbox.url(), log: log.file }
  const consumer: ConsumerConfig = { ...base, acknowledged }
  const restart: (() => Program)[] = [
    ...['none', 'per-key'].map((ordering) => () => {
      const owner = `relay-${(programs += 1)}`
      const config = {
        ...base,
        owner,
        leaseMs: 600,
        batchSize: 10,
        ordering: ordering as 'none' | 'per-key',
      }
      return new Program('relay', config satisfies RelayConfig)
    }),
    ...[1, 2].map(() => () => {
      const config = {
        ...base,
        seed: SEED * 1000 + (programs += 1),
        keys: KEYS,
        transactions: TRANSACTIONS,
        pauseMs: 2,
      }
      return new Program('producer', config satisfies ProducerConfig)
    }),
    () => new Program('consumer', consumer),
  ]
  const running = restart.map((start) => start())
  await Promise.all(running.map((program) => program.reports('started')))

  for (let kills = 0; kills < KILLS; kills += 1) {
    // The test waits for progress and not for a time, so that every kill hits working programs.
    await log.delivered(log.deliveries().length + Math.floor(random() * 60))
    const victim = Math.floor(random() * running.length)
    await running[victim]!.kill()
    running[victim] = restart[victim]!()
    if (random() < 0.7) await running[victim].reports('started')
  }

  await Promise.all(running.slice(2, 4).map((producer) => producer.kill()))
  await disconnected(outbox, 'producer')
  await outbox.settled()
  await until(
    async () => existsSync(acknowledged) && linesOf(acknowledged) >= log.deliveries().length,
    () => `the consumer has acknowledged ${linesOf(acknowledged)} of ${log.deliveries().length} deliveries`,
    30_000,
  )

  for (const key of KEYS) {
    const [row] = await target.sql('select n from counters where name = ?', [key])
    const numbers = Array.from({ length: Number(row?.['n']) }, (_, n) => String(n + 1))
    expect(log.bodiesOf(key), `published of ${key}`).toEqual(numbers)
    const effects = await target.sql('select name from effects where name like ? order by seq', [`${key}:%`])
    expect(effects.map(({ name }) => name)).toEqual(numbers.map((n) => `${key}:${n}`))
  }
  expect(log.differing()).toEqual([])
})

function linesOf(file: string): number {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0
}
