import { expect, inject, test } from 'vitest'
import { createDeadLetters } from '@txbox/relay'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { keysOfOneShard } from '../support/subjects/keys.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program } from '../support/worlds/program.ts'
import { messagesOf, publishAll } from '../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import type { RelayConfig } from './programs/relay.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = target.kinds.find(({ library }) => library !== 'kysely')!
const root = useRoot(target, kind)
const [poisoned, neighbour] = keysOfOneShard(2) as [string, string]
const ATTEMPTS = 2
// Each renewal may take a third of this, also while a busy machine runs other tests.
const LEASE_MS = 2000

const ORDERINGS = inject('tier') === 'all' ? (['none', 'per-key'] as const) : (['per-key'] as const)

for (const ordering of ORDERINGS) {
  test(`O9 a message that kills its relay again and again becomes a dead letter, and no other message does (${ordering})`, async () => {
    const log = new DeliveryLog()
    const before = await publishAll(root, [...messagesOf(neighbour, 3), ...messagesOf(undefined, 20)])
    const [poison, ...after] = await publishAll(root, messagesOf(poisoned, 4))
    const elsewhere = await publishAll(root, [...messagesOf('b', 3), ...messagesOf('c', 3)])
    const config: RelayConfig = {
      ...{ url: outbox.url(), log: log.file, owner: 'relay', leaseMs: LEASE_MS, batchSize: 50, ordering },
      ...{ poison: [poison!], attempts: ATTEMPTS },
    }
    let crashes = 0
    for (; crashes < 7; crashes += 1) {
      // A supervisor starts the relay again, under a new name.
      const next: RelayConfig = { ...config, owner: `relay-${crashes}` }
      const relay = new Program('relay', next)
      const ended = await Promise.race([
        relay.ended(),
        outbox.settled().then(
          () => 'settled' as const,
          () => relay.ended(),
        ),
      ])
      if (ended === 'settled') break
      expect(ended).toBe('SIGKILL')
    }
    // The message was published twice in a batch, where no attempt is counted, and once for each attempt.
    expect(crashes).toBe(ATTEMPTS + 2)
    const dead = await createDeadLetters({ database: root.database }).list()
    expect(dead).toMatchObject([{ id: poison, attempts: ATTEMPTS }])
    expect(dead[0]!.error).toContain('died')
    const delivered = log.deliveries().map(({ id }) => id)
    expect([...new Set(delivered)].sort()).toEqual([...before, ...after, ...elsewhere].sort())
    const n = (key: string): string[] => messagesOf(key, 4).map(({ payload }) => JSON.stringify(payload))
    expect(log.bodiesOf(poisoned)).toEqual(n(poisoned).slice(1))
    expect(log.bodiesOf(neighbour)).toEqual(n(neighbour).slice(0, 3))
  })
}
