import { SHARDS } from '@txbox/core/internal'
import { expect, test } from 'vitest'
import { Broker } from '../support/worlds/broker.ts'
import { stepsOfTier } from '../support/tiers/crash-steps.ts'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program } from '../support/worlds/program.ts'
import { relayStatementsOf } from '../support/subjects/relay-statements.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import type { Step } from './programs/mortal.ts'
import type { RelayConfig } from './programs/relay.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = target.kinds.find(({ library }) => library !== 'kysely')!
const root = useRoot(target, kind)
// Each renewal may take a third of this, also while a busy machine runs other tests.
const LEASE_MS = 3000
const KEYS = ['a', 'b', 'c', 'd']

const { take: TAKE, renew: RENEW, read: READ, settle: SETTLE } = relayStatementsOf(target)

/** Every two steps of a relay have one between them. */
const steps: Record<string, Step> = {
  'before it has made itself known': { statement: TAKE, phase: 'before' },
  'when it has asked for its shards': { statement: TAKE, nth: 2, phase: 'sent' },
  'when it has got its shards': { statement: TAKE, nth: 2, phase: 'answered' },
  'before it reads': { statement: READ, phase: 'before' },
  'when it has read': { statement: READ, nth: 2, phase: 'answered' },
  'before it publishes': { point: 'before publishing' },
  'in the middle of a batch': { point: 'in the middle of a batch', nth: 3 },
  'when it has published, before the call returns': { point: 'after publishing' },
  'before it settles': { statement: SETTLE, phase: 'before' },
  'while it settles': { statement: SETTLE, phase: 'sent' },
  'when it has settled': { statement: SETTLE, phase: 'answered' },
  'in a later batch, before it settles': { statement: SETTLE, nth: 4, phase: 'before' },
  'in a later batch, while it settles': { statement: SETTLE, nth: 5, phase: 'sent' },
  'while it renews its leases': { statement: RENEW, nth: 1, phase: 'sent' },
}

for (const [n, [when, step]] of stepsOfTier(steps).entries()) {
  const ordering = n % 2 === 0 ? 'none' : 'per-key'
  test(`O1 O2 O3 O7 a relay is killed ${when}: another relay takes over within its lease (${ordering})`, async () => {
    const log = new DeliveryLog()
    await publishAll(
      root,
      KEYS.flatMap((key) => messagesOf(key, 10)),
    )
    const config: RelayConfig = {
      ...{ url: outbox.url(), log: log.file, owner: 'first', leaseMs: LEASE_MS, batchSize: 4, ordering },
      fate: { step, signal: 'SIGKILL' },
    }
    const first = new Program('relay', config)
    expect(await first.ended()).toBe('SIGKILL')
    const killedAt = performance.now()
    const before = log.deliveries().length

    const broker = new Broker()
    const publisher = broker.publisher({
      owner: 'second',
      ordering,
      respond: (call) => {
        for (const message of call.messages) {
          log.append({
            what: 'delivery',
            owner: 'second',
            id: message.id,
            key: message.key!,
            body: message.text(),
          })
        }
        return call.acceptAll()
      },
    })
    const second = await RelayUnderTest.started(root, publisher, { leaseMs: LEASE_MS })
    await until(
      async () => (await outbox.leases()).filter(({ owner }) => owner !== 'first').length === SHARDS,
      () => 'the second relay has all shards',
    )
    // The relay looks for free shards at least once a second; the remaining time is for a slow machine.
    expect(performance.now() - killedAt).toBeLessThan(LEASE_MS + 3000)
    await outbox.settled()
    expect(second.heard('error')).toEqual([])

    for (const key of KEYS) {
      const expected = messagesOf(key, 10).map(({ payload }) => JSON.stringify(payload))
      expect(log.bodiesOf(key)).toEqual(expected)
      // Only unsettled messages were sent again: at most one batch of each lane.
      const resent = log.deliveries().slice(before).length - (40 - before)
      expect(resent).toBeLessThanOrEqual(4 * 4)
    }
    expect(log.differing()).toEqual([])
  })
}
