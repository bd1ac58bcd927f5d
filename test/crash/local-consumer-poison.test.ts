import { expect, test } from 'vitest'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { keysOfOneShard } from '../support/subjects/keys.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program } from '../support/worlds/program.ts'
import { LocalUnderTest } from '../support/subjects/local-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import type { LocalConsumerConfig } from './programs/local-consumer.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = target.kinds.find(({ library }) => library !== 'kysely')!
const root = useRoot(target, kind, { max: 8 })
const [poisoned, neighbour] = keysOfOneShard(2) as [string, string]
const ATTEMPTS = 2

for (const batches of [false, true]) {
  test(`L5 O9 a message that kills its consumer again and again becomes a dead letter, and no other message does${batches ? ', in batches' : ''}`, async () => {
    const subject = new LocalUnderTest(target, root)
    const before = await subject.publish(
      ...Array.from({ length: 6 }, (_, n) => ({ key: n < 3 ? neighbour : `k${n}` })),
    )
    const [poison, ...after] = await subject.publish(...Array.from({ length: 4 }, () => ({ key: poisoned })))
    const elsewhere = await subject.publish({ key: 'b' }, { key: neighbour }, {}, {}, { key: 'c' })
    const config: LocalConsumerConfig = {
      ...{ url: outbox.url(), log: new DeliveryLog().file, consumer: subject.name(), leaseMs: 1500 },
      ...{ poison: [poison!], attempts: ATTEMPTS },
      ...(batches ? { batch: { maxSize: 10, lingerMs: 20 }, concurrency: 1 } : { concurrency: 3 }),
    }
    let crashes = 0
    for (; crashes < 10; crashes += 1) {
      // A supervisor starts the process again.
      const program = new Program('local-consumer', config)
      const ended = await Promise.race([
        program.ended(),
        subject.settled().then(
          () => 'settled' as const,
          () => program.ended(),
        ),
      ])
      if (ended === 'settled') break
      expect(ended).toBe('SIGKILL')
    }
    expect(crashes).toBeGreaterThanOrEqual(ATTEMPTS)
    expect(crashes).toBeLessThanOrEqual(ATTEMPTS + 3)
    const dead = await subject.deadLetters.list({ consumer: subject.name() })
    expect(dead).toMatchObject([{ id: poison, attempts: ATTEMPTS, error: expect.stringContaining('died') }])
    const effects = await subject.effectsInOrder()
    expect(effects.toSorted()).toEqual([...before, ...after, ...elsewhere].toSorted())
    expect(effects.filter((id) => after.includes(id))).toEqual(after)
  })
}
