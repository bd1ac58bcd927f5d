import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { beforeEach, expect, inject, test } from 'vitest'
import { stepsOfTier } from '../support/tiers/crash-steps.ts'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program } from '../support/worlds/program.ts'
import { useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import type { ConsumerConfig } from './programs/consumer.ts'
import type { Step } from './programs/mortal.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
beforeEach(async () => {
  await target.sql(`delete from ${target.outboxTable.replace(/outbox$/, 'inbox')}`)
  await target.sql('delete from effects')
})

/** Each at the second message, so that there is something before and after it. */
const steps: Record<string, Step> = {
  'before it claims': { statement: 'insert into \\S+inbox', nth: 2, phase: 'before' },
  'while it claims': { statement: 'insert into \\S+inbox', nth: 2, phase: 'sent' },
  'when it has claimed': { statement: 'insert into \\S+inbox', nth: 2, phase: 'answered' },
  'before the effect': { point: 'before the effect', nth: 2 },
  'while the effect is written': { statement: 'insert into \\S*effects', nth: 2, phase: 'sent' },
  'after the effect': { point: 'after the effect', nth: 2 },
  'before COMMIT': { statement: '^commit', nth: 2, phase: 'before' },
  'during COMMIT': { statement: '^commit', nth: 2, phase: 'sent' },
  'after COMMIT': { statement: '^commit', nth: 2, phase: 'answered' },
  'before it acknowledges': { point: 'before the acknowledgement', nth: 2 },
  'when it has acknowledged': { point: 'after the acknowledgement', nth: 2 },
}

/** The quick tier leaves pipelining to the tier `all`. */
for (const pipeline of target.engine === 'postgres' && inject('tier') === 'all' ? [false, true] : [false]) {
  for (const [when, step] of stepsOfTier(steps)) {
    const how = pipeline ? ', pipelined' : ''
    test(`I2 I10 a consumer is killed ${when}: after redelivery, each message takes effect once${how}`, async () => {
      const log = new DeliveryLog()
      // Messages 2 and 1 are delivered again, as from a relay that was killed.
      for (const n of [1, 2, 2, 1, 3]) {
        log.append({ what: 'delivery', owner: 'relay', id: `message-${n}`, key: 'a', body: String(n) })
      }
      const acknowledged = path.join(log.folder, 'acknowledged')
      const config: ConsumerConfig = { url: outbox.url(), log: log.file, acknowledged, pipeline }
      const first = new Program('consumer', { ...config, fate: { step, signal: 'SIGKILL' } })
      expect(await first.ended()).toBe('SIGKILL')
      const second = await Program.started('consumer', config)
      await until(
        async () => existsSync(acknowledged) && readFileSync(acknowledged, 'utf8').split('\n').length > 5,
        () => 'every delivery is acknowledged',
      )
      await second.kill()
      const effects = await target.sql('select name from effects order by seq')
      expect(effects.map(({ name }) => name)).toEqual(['a:1', 'a:2', 'a:3'])
      expect((await target.claims('receiver')).length).toBe(3)
    })
  }
}
