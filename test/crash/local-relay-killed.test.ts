import { beforeEach, expect, test } from 'vitest'
import { stepsOfTier } from '../support/tiers/crash-steps.ts'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program } from '../support/worlds/program.ts'
import { relayStatementsOf } from '../support/subjects/relay-statements.ts'
import { messagesOf, publishAll } from '../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import type { LocalRelayConfig } from './programs/local-relay.ts'
import type { Step } from './programs/mortal.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(
  target,
  target.kinds.find(({ library }) => library !== 'kysely')!,
)
beforeEach(() => target.sql('delete from effects'))

// Each renewal may take a third of this, also while a busy machine runs other tests.
const LEASE_MS = 3000
const KEYS = ['a', 'b', 'c']
const { settle: SETTLE } = relayStatementsOf(target)

const steps: Record<string, Step> = {
  'before the effect': { point: 'before the effect', nth: 2 },
  'after the effect': { point: 'after the effect', nth: 2 },
  'when the first handler has committed': { point: 'handled' },
  'when a later handler has committed': { point: 'handled', nth: 5 },
  'before the call of the publisher returns': { point: 'before it settles', nth: 2 },
  'before it settles': { statement: SETTLE, phase: 'before' },
  'while it settles': { statement: SETTLE, nth: 2, phase: 'sent' },
  'when it has settled': { statement: SETTLE, phase: 'answered' },
}

for (const [when, step] of stepsOfTier(steps)) {
  test(`O1 O2 O3 I2 I3 a relay that handles by an inbox is killed ${when}: every message takes effect once, in the order of its key`, async () => {
    await publishAll(
      root,
      KEYS.flatMap((key) => messagesOf(key, 4)),
    )
    const config: LocalRelayConfig = {
      ...{ url: outbox.url(), log: new DeliveryLog().file, owner: 'first', leaseMs: LEASE_MS },
    }
    const first = new Program('local-relay', { ...config, fate: { step, signal: 'SIGKILL' } })
    expect(await first.ended()).toBe('SIGKILL')
    const second = await Program.started('local-relay', { ...config, owner: 'second' } as LocalRelayConfig)
    await outbox.settled()
    await second.kill()
    for (const key of KEYS) {
      const effects = await target.sql('select name from effects where name like ? order by seq', [
        `${key}:%`,
      ])
      expect(effects.map(({ name }) => name)).toEqual([1, 2, 3, 4].map((n) => `${key}:${n}`))
    }
    expect(await outbox.parked()).toEqual([])
  })
}
