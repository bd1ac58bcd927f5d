import { beforeEach, expect, test } from 'vitest'
import { Broker } from '../support/worlds/broker.ts'
import { stepsOfTier } from '../support/tiers/crash-steps.ts'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { disconnected, Program } from '../support/worlds/program.ts'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import type { Step } from './programs/mortal.ts'
import type { ProducerConfig } from './programs/producer.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = target.kinds.find(({ library }) => library !== 'kysely')!
const root = useRoot(target, kind)
const SEED = 99
const KEYS = ['a', 'b']
beforeEach(async () => {
  await target.sql('delete from counters')
  for (const key of KEYS) await target.sql('insert into counters (name, n) values (?, 0)', [key])
})

const steps: Record<string, Step> = {
  'before publish': { point: 'before publish', nth: 5 },
  'while it publishes': { statement: 'insert into \\S+outbox', nth: 5, phase: 'sent' },
  'after publish': { point: 'after publish', nth: 5 },
  'before COMMIT': { statement: '^commit', nth: 5, phase: 'before' },
  'during COMMIT': { statement: '^commit', nth: 5, phase: 'sent' },
  'when COMMIT was answered': { statement: '^commit', nth: 5, phase: 'answered' },
  'after COMMIT': { point: 'after commit', nth: 5 },
}

for (const [when, step] of stepsOfTier(steps)) {
  test(`O1 a producer is killed ${when}: exactly the committed messages are published (seed ${SEED})`, async () => {
    const log = new DeliveryLog()
    const config: ProducerConfig = {
      ...{ url: outbox.url(), log: log.file, seed: SEED, keys: KEYS, transactions: 100 },
      fate: { step, signal: 'SIGKILL' },
    }
    const producer = new Program('producer', config)
    expect(await producer.ended()).toBe('SIGKILL')
    await disconnected(outbox, 'producer')
    const broker = new Broker()
    await new RelayUnderTest(root, broker.publisher()).relay.drain()
    for (const key of KEYS) {
      const [row] = await target.sql('select n from counters where name = ?', [key])
      const published = broker.log.flatMap(({ message }) =>
        message.key === key ? [message.json<number>()] : [],
      )
      expect(published).toEqual(Array.from({ length: Number(row?.['n']) }, (_, n) => n + 1))
    }
    expect(broker.log.length).toBeGreaterThan(2)
  })
}
