import { expect, onTestFinished, test } from 'vitest'
import { portsKey } from '@txbox/core'
import type { BacklogMessage, ConnectedPorts, Lease, LeaseStore, RelayStore } from '@txbox/core/ports'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { kindsOfRoots, useRoot, useTarget, type HandleKind, type Root } from '../../support/engines/target.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'
import { refusalOf } from '../../support/subjects/settlements.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const SHARD = 3
const LEASE_MS = 300
/** More statements than any of the actions needs. */
const MOST_REQUESTS = 16

function portsOf(root: Root): ConnectedPorts {
  return (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
}

interface Owner {
  readonly network: UnreliableNetwork
  readonly leases: LeaseStore
  readonly relay: RelayStore
  readonly lease: Lease
}

/** The owner of a lease, with open connections. */
async function ownerOf(name: string, kind: HandleKind): Promise<Owner> {
  const network = await UnreliableNetwork.to(target.address())
  const root = target.open(kind, { through: network, max: 2 })
  onTestFinished(async () => {
    await network.close()
    await root.close()
  })
  const leases = portsOf(root).leases()
  const relay = portsOf(root).relay({ statementTimeoutMs: 60_000 })
  const request = { owner: 'me', ttlMs: LEASE_MS, limit: 1 }
  const [[lease]] = await Promise.all([leases.acquire([name], request), relay.work([SHARD])])
  return { network, leases, relay, lease: lease! }
}

const actions: Readonly<Record<string, (owner: Owner, message: BacklogMessage) => Promise<unknown>>> = {
  'renewing a lease': ({ leases, lease }) => leases.renew([lease], LEASE_MS),
  'giving a lease back and taking it again': async ({ leases, lease }) => {
    await leases.release([lease])
    await leases.acquire([lease.name], { owner: 'me', ttlMs: LEASE_MS, limit: 1 })
  },
  'settling what was accepted': ({ relay, lease }, message) =>
    relay.settle(lease, SHARD, { accepted: [message], refused: [], behind: [] }),
  'settling what was refused': ({ relay, lease }, message) =>
    relay.settle(lease, SHARD, { accepted: [], refused: [refusalOf(message, 60_000)], behind: [] }),
}

for (const kind of kindsOfRoots(target)) {
  const root = useRoot(target, kind, { max: 4 })

  test.for(Object.keys(actions))(
    `O7 a relay that is cut off between any two statements of %s leaves no lock that blocks other relays (${kind.name})`,
    async (doing) => {
      await outbox.fill(MOST_REQUESTS * 16)
      const successor = portsOf(root).leases()
      onTestFinished(() => successor.close())
      const messages = await portsOf(root)
        .relay({ statementTimeoutMs: 60_000 })
        .read(SHARD, { messages: 1000, bytes: 1_000_000 })
      const cutOffAfter = async (requests: number): Promise<boolean> => {
        const owner = await ownerOf(`${doing}/${requests}`, kind)
        const frozen = owner.network.freezeAfter(requests).then(() => true)
        const finished = actions[doing]!(owner, messages[requests]!).then(
          () => false,
          // A lease that has expired by now.
          () => false,
        )
        const wasCutOff = await Promise.race([frozen, finished])
        const names = [owner.lease.name]
        await until(
          async () =>
            (await successor.acquire(names, { owner: 'you', ttlMs: 60_000, limit: 1 })).length === 1,
          () => `the lease of who was cut off after ${requests} requests can be taken`,
          10_000,
        )
        return wasCutOff
      }
      const all = await Promise.all(Array.from({ length: MOST_REQUESTS }, (_, n) => cutOffAfter(n)))
      expect(all[0]).toBe(true)
      expect(all.at(-1)).toBe(false)
    },
  )
}
