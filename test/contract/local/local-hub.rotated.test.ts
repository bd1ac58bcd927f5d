import { expect, onTestFinished, test } from 'vitest'
import { connectedPortsOf } from '@txbox/core/internal'
import { createOutbox } from '@txbox/outbox'
import { joinLocalHub, wakeLocalConsumers } from '../../../packages/consumer/src/local/local-hub.ts'
import type {
  LocalHeldShard,
  LocalMembership,
} from '../../../packages/consumer/src/local/local-membership.ts'
import type { LocalHubConfig } from '../../crash/programs/local-hub.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { onMainRoot, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { DeliveryLog } from '../../support/worlds/delivery-log.ts'
import { Program } from '../../support/worlds/program.ts'
import { undisturbed } from '../../support/worlds/undisturbed.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const LEASE_MS = 1500
/** The time until the next round of the keeper, and that of a slow machine. */
const ROUND_MS = 2500

const leasesTable = target.outboxTable.replace(/outbox$/, 'leases')

/** How many shards of a consumer each owner holds, largest first. */
async function shares(consumer = 'billing'): Promise<number[]> {
  const held = await target.sql(
    `select owner, count(*) as n from ${leasesTable} where name like ? and owner is not null group by owner`,
    [`local/${consumer}/%`],
  )
  return held.map(({ n }) => Number(n)).sort((a, b) => b - a)
}

async function untilShares(...expected: number[]): Promise<void> {
  await until(
    async () => (await shares()).join() === expected.join(),
    async () => `shares of ${expected.join()}; there are ${(await shares()).join()}`,
  )
}

interface Joined {
  readonly membership: LocalMembership
  readonly acquired: LocalHeldShard[]
  readonly lost: string[]
  readonly found: LocalHeldShard[]
  readonly failures: unknown[]
}

async function join(root: Root, consumer = 'billing', pollIntervalMs = { min: 5, max: 20 }): Promise<Joined> {
  const joined = { acquired: [], lost: [], found: [], failures: [] } as Omit<Joined, 'membership'>
  const membership = await joinLocalHub(connectedPortsOf('test', root.database), {
    ...{ consumer, types: ['made', 'changed'], leaseMs: LEASE_MS },
    ...{ pollMs: { listening: pollIntervalMs, polling: pollIntervalMs }, listens: false },
    listener: {
      acquired: (held) => void joined.acquired.push(held),
      lost: (_, reason) => void joined.lost.push(reason),
      found: (held) => void joined.found.push(held),
      failed: (error) => void joined.failures.push(error),
      notListening: (error) => void joined.failures.push(error),
    },
  })
  onTestFinished(() => membership.leave(AbortSignal.timeout(2000)))
  return { ...joined, membership }
}

function program(): Promise<Program> {
  const config: LocalHubConfig = {
    ...{ url: outbox.url(), log: new DeliveryLog().file, consumer: 'billing', leaseMs: LEASE_MS },
  }
  return Program.started('local-hub', config)
}

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 8 })

  test('two processes share the shards of a consumer, and one that leaves hands over at once', async () => {
    const first = await program()
    await untilShares(16)
    const second = await join(root)
    await untilShares(8, 8)
    const { tookMs } = await undisturbed(target, async () => {
      first.say('leave')
      await first.reports('left')
      await untilShares(16)
    })
    expect(tookMs).toBeLessThan(ROUND_MS)
    await until(
      async () => second.membership.held.length === 16,
      () => '16 shards',
    )
    expect(second.acquired.every(({ crashes }) => crashes === 0)).toBe(true)
    expect([second.lost, second.failures]).toEqual([[], []])
  })

  test('a process that is killed is replaced when its leases have expired, and the crash is counted', async () => {
    const first = await program()
    await untilShares(16)
    const second = await join(root)
    await untilShares(8, 8)
    const before = second.acquired.length
    const { tookMs } = await undisturbed(target, async () => {
      expect(await first.kill()).toBe('SIGKILL')
      await until(
        async () => second.membership.held.length === 16,
        () => '16 shards',
      )
    })
    expect(tookMs).toBeLessThan(LEASE_MS + ROUND_MS)
    // On a busy machine, the second process may have lost its own shards meanwhile, and taken them again.
    const crashed = second.acquired.slice(before).filter(({ crashes }) => crashes > 0)
    expect(crashed.map(({ crashes }) => crashes)).toEqual(Array(8).fill(1))
  })

  test('several consumers of one process have one connection for their leases, and all shards of their own', async () => {
    const names = ['billing', 'billing/eu', 'mailer']
    const joined = await Promise.all(names.map((name) => join(root, name)))
    for (const { membership } of joined) {
      await until(
        async () => membership.held.length === 16,
        () => '16 shards',
      )
    }
    const members = await target.sql(
      `select name, owner from ${leasesTable} where name like 'local-member/%'`,
    )
    expect(new Set(members.map(({ owner }) => String(owner))).size).toBe(1)
    expect(members.map(({ name }) => String(name)).sort()).toEqual(
      names.map((name) => `local-member/${name}/${String(members[0]!['owner'])}`).sort(),
    )
    for (const { membership } of joined) await membership.leave(AbortSignal.timeout(2000))
    const left = await target.sql(
      `select name from ${leasesTable} where name like 'local%' and owner is not null`,
    )
    expect(left).toEqual([])
  })

  test('the types of a consumer are registered before it holds its shards', async () => {
    await join(root)
    const subscriptions = connectedPortsOf('test', root.database).subscriptions()
    const types = (await subscriptions.list()).filter(({ consumer }) => consumer === 'billing')
    expect(types.map(({ type }) => type)).toEqual(['changed', 'made'])
  })

  test('T3 published messages are found by a poll, and at once after a wake-up', async () => {
    const { membership, found } = await join(root, 'billing', { min: 60_000, max: 60_000 })
    await until(
      async () => membership.held.length === 16,
      () => '16 shards',
    )
    await membership.look()
    expect(found).toEqual([])
    const messages = createOutbox({ database: root.database, subscriptions: 'registered' })
    await root.database.transact(async (tx) => {
      await messages.publish(tx, { type: 'made', key: 'a', payload: {} })
    })
    wakeLocalConsumers(connectedPortsOf('test', root.database))
    await until(
      async () => found.length > 0,
      () => 'a find',
    )
    expect(found[0]!.consumer).toBe('billing')
    await target.sql(`delete from ${target.outboxTable.replace(/outbox$/, 'local_outbox')}`)
  })

  test('a process that is cut off from the database loses its shards, and gets its share when it is back', async () => {
    const network = await UnreliableNetwork.to(target.address())
    const remote = target.open(kind, { through: network, max: 6 })
    onTestFinished(async () => {
      await network.close()
      await remote.close()
    })
    const first = await join(remote)
    await until(
      async () => first.membership.held.length === 16,
      () => '16 shards',
    )
    network.freeze()
    const second = await join(root)
    await until(
      async () => second.membership.held.length === 16,
      () => '16 shards',
    )
    expect(first.membership.held.filter(({ isTrusted }) => isTrusted)).toEqual([])
    await until(
      async () => first.membership.held.length === 0,
      () => 'no shards',
    )
    expect(new Set(first.lost)).toEqual(new Set(['expired']))
    expect(first.failures.length).toBeGreaterThan(0)
    network.thaw()
    network.cut()
    await untilShares(8, 8)
    await until(
      async () => first.membership.held.length === 8,
      () => '8 shards',
    )
  })
})
