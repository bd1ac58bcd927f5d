import { expect, inject, test } from 'vitest'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program, disconnected } from '../support/worlds/program.ts'
import { LocalUnderTest } from '../support/subjects/local-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import type { LocalConsumerConfig } from './programs/local-consumer.ts'
import type { Step } from './programs/mortal.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(
  target,
  target.kinds.find(({ library }) => library !== 'kysely')!,
  { max: 8 },
)

/** Each statement in turn, whatever it is, from the check of the tables on; in the quick tier every eighth. */
const STATEMENTS = Array.from({ length: 32 }, (_, n) => n).filter(
  (n) => inject('tier') === 'all' || n % 8 === 0,
)
const PHASES = ['before', 'sent', 'answered'] as const
const steps: Record<string, Step> = {
  'before the effect': { point: 'before the effect', nth: 2 },
  'while the effect is written': { statement: 'insert into \\S*effects', nth: 2, phase: 'sent' },
  'after the effect': { point: 'after the effect', nth: 2 },
  'before the message is removed': { statement: '^delete from \\S*local_outbox', nth: 2, phase: 'before' },
  'while the message is removed': { statement: '^delete from \\S*local_outbox', nth: 2, phase: 'sent' },
  'when the message is removed': { statement: '^delete from \\S*local_outbox', nth: 2, phase: 'answered' },
  'before COMMIT of its work': { statement: '^commit', nth: 2, phase: 'before' },
  'during COMMIT of its work': { statement: '^commit', nth: 2, phase: 'sent' },
  'when COMMIT is answered': { statement: '^commit', nth: 2, phase: 'answered' },
  'after COMMIT of its work': { point: 'handled', nth: 2 },
  ...Object.fromEntries(
    STATEMENTS.map((n) => {
      const phase = PHASES[n % 3]!
      return [`at statement ${n + 1} (${phase})`, { statement: '', nth: n + 1, phase }]
    }),
  ),
}

for (const batches of [false, true]) {
  const what = batches ? 'L1 L7 L4 a local consumer of batches' : 'L1 L4 a local consumer'
  for (const [n, [when, step]] of Object.entries(steps).entries()) {
    // In the quick tier, and at arbitrary statements, by turns.
    const byTurns = inject('tier') === 'quick' || when.startsWith('at statement')
    if (byTurns && (n % 2 === 0) !== batches) continue
    test(`${what} is killed ${when}: every message takes effect once, in the order of its key`, async () => {
      const subject = new LocalUnderTest(target, root)
      const keys = ['a', 'b', 'a', 'b', 'a', 'c', 'a', 'b']
      const ids = await subject.publish(...keys.map((key) => ({ key })))
      const config: LocalConsumerConfig = {
        ...{ url: outbox.url(), log: new DeliveryLog().file, consumer: subject.name() },
        ...(batches ? { batch: { maxSize: 3, lingerMs: 5 }, concurrency: 1 } : {}),
      }
      const first = new Program('local-consumer', { ...config, fate: { step, signal: 'SIGKILL' } })
      // A statement that a driver sends in another form, or that a batch does not need, is never reached.
      const end = await Promise.race([
        first.ended(),
        subject.settled('billing', 15_000).then(() => 'settled' as const),
      ])
      if (end === 'settled') await first.kill()
      else expect(end).toBe('SIGKILL')
      await disconnected(outbox, 'local-consumer')
      const second = await Program.started('local-consumer', config)
      await subject.settled()
      await second.kill()
      const effects = await subject.effectsInOrder()
      expect(effects.toSorted()).toEqual(ids.toSorted())
      for (const key of ['a', 'b', 'c']) {
        const ofKey = ids.filter((_, at) => keys[at] === key)
        expect(effects.filter((id) => ofKey.includes(id))).toEqual(ofKey)
      }
      expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
      // The named steps that every driver has must be met.
      if (/effect|after COMMIT/.test(when)) expect(end).toBe('SIGKILL')
    })
  }
}
