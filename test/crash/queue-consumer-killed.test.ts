import { beforeEach, expect, inject, test } from 'vitest'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program, disconnected } from '../support/worlds/program.ts'
import { QueueUnderTest } from '../support/subjects/queue-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import type { Step } from './programs/mortal.ts'
import type { QueueConsumerConfig } from './programs/queue-consumer.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(
  target,
  target.kinds.find(({ library }) => library !== 'kysely')!,
)
beforeEach(() => target.sql('delete from effects'))

/** Each statement in turn, whatever it is, from the check of the tables to the third message; in the quick tier every eighth. */
const STATEMENTS = Array.from({ length: 24 }, (_, n) => n).filter(
  (n) => inject('tier') === 'all' || n % 8 === 0,
)
const PHASES = ['before', 'sent', 'answered'] as const
const steps: Record<string, Step> = {
  'when it has received': { point: 'received', nth: 2 },
  'before the effect': { point: 'before the effect', nth: 2 },
  'after the effect': { point: 'after the effect', nth: 2 },
  'before COMMIT of its work': { statement: '^commit', nth: 3, phase: 'before' },
  'during COMMIT of its work': { statement: '^commit', nth: 3, phase: 'sent' },
  'after COMMIT of its work': { point: 'handled', nth: 2 },
  ...Object.fromEntries(
    STATEMENTS.map((n) => {
      const phase = PHASES[n % 3]!
      return [`at statement ${n + 1} (${phase})`, { statement: '', nth: n + 1, phase }]
    }),
  ),
}

/**
 * By the methods of the queue, and by createConsumer: each named step by both, the other statements by turns. In the quick
 * tier all steps by turns.
 */
for (const runtime of [false, true]) {
  const by = runtime ? 'C1 Q21 a consumer of createConsumer' : 'Q21 a consumer'
  for (const [n, [when, step]] of Object.entries(steps).entries()) {
    const byTurns = inject('tier') === 'quick' || when.startsWith('at statement')
    if (byTurns && (n % 2 === 0) !== runtime) continue
    test(`${by} is killed ${when}: every message takes effect once, in the order of its key`, async () => {
      const subject = new QueueUnderTest(target, root)
      const keys = ['a', 'b', 'a', 'b', 'a', 'c']
      await subject.send(...keys.map((key, n) => ({ key, payload: runtime ? `${key}:${n}` : n })))
      const config: QueueConsumerConfig = {
        ...{ url: outbox.url(), log: new DeliveryLog().file, queue: subject.queue.name, runtime },
      }
      const first = new Program('queue-consumer', { ...config, fate: { step, signal: 'SIGKILL' } })
      expect(await first.ended()).toBe('SIGKILL')
      await disconnected(outbox, 'queue-consumer')
      const second = await Program.started('queue-consumer', config)
      await until(
        async () => (await subject.size()) === 0,
        async () => `every message is handled; there are ${await subject.size()}`,
      )
      await second.kill()
      const effects = (await target.sql('select name from effects order by seq')).map(({ name }) =>
        String(name),
      )
      expect(effects.filter((name) => name.startsWith('a'))).toEqual(['a:0', 'a:2', 'a:4'])
      expect(effects.filter((name) => name.startsWith('b'))).toEqual(['b:1', 'b:3'])
      expect(effects.filter((name) => name.startsWith('c'))).toEqual(['c:5'])
      expect(await subject.queue.deadLetters.list()).toEqual([])
    })
  }
}
