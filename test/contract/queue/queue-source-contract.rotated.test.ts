import { queueSource } from '@txbox/queue'
import { sourceContract } from '@txbox/testing'
import { testContract } from '../../support/subjects/contract-tests.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import type { Proxy } from '../../support/worlds/proxy.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 8 })
const LEASE_MS = 1000

const traits = {
  ...{ delays: true, countsDeliveries: true, keepsRejected: true, ordersKeys: true },
  settlesInTransaction: true,
  maxDeliveries: 10,
}

function open(visibilityTimeoutMs: number) {
  return async () => {
    const { proxy, through } = await rootThroughProxy(target, mainKind(target))
    // Messages are sent, and looked at, past the network that breaks.
    const subject = new QueueUnderTest(target, root)
    let outage: ReturnType<Proxy['refuse']> | undefined
    const queue = subject.twin(through, { visibilityTimeoutMs })
    return {
      source: queueSource(queue, { pollIntervalMs: { min: 5, max: 20 } }),
      send: async (ids: readonly string[], { key }: { key?: string | undefined } = {}) =>
        void (await subject.sendTogether(ids.map((id) => ({ id, ...(key !== undefined && { key }) })))),
      network: {
        cut: () => proxy.cut(),
        down: async () => void (outage = proxy.refuse()),
        up: async () => outage!.over(),
      },
      left: () => subject.visible(),
      rejected: async () => (await subject.queue.deadLetters.list({ limit: 1000 })).map(({ id }) => id),
      begin: () => through.begin(),
    }
  }
}

const VISIBLE_MS = 30_000
const contractWith = (leaseMs: number) => sourceContract({ traits: { ...traits, leaseMs } }, open(leaseMs))

testContract(contractWith(VISIBLE_MS), {
  suffix: ' (stored queue)',
  without: { E8: 'the lease is too long for it, and another subject has a short one' },
})
testContract(
  contractWith(LEASE_MS).filter(({ rule }) => rule === 'E8'),
  { suffix: ' (stored queue, short lease)' },
)
