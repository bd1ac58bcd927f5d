import { sourceContract, type SourceContractOptions, type SourceTraits } from '@txbox/testing'
import { testContract } from '../support/subjects/contract-tests.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

const BROKER: SourceTraits = {
  ...{ delays: false, countsDeliveries: true, keepsRejected: true, ordersKeys: false },
  settlesInTransaction: false,
  leaseMs: undefined,
}

/** A queue in memory is open once at a time, and every lost connection ends it. */
const contract = (options: SourceContractOptions) =>
  sourceContract({ competes: false, survivesCut: false, ...options }, async () => {
    const source = new MemorySource(options.traits)
    return {
      source,
      send: async (ids, { key } = {}) => {
        for (const id of ids) source.send(id, key === undefined ? {} : { key })
      },
      network: { cut: () => source.cut() },
      left: async () => source.left.length - source.out,
      rejected: async () => source.rejected.map(({ id }) => id),
    }
  })

const KINDS: Readonly<Record<string, SourceContractOptions>> = {
  'that counts': { traits: BROKER },
  'that does not count': { traits: { ...BROKER, countsDeliveries: false } },
  'with leases and delays': {
    traits: { ...BROKER, delays: true, keepsRejected: false, leaseMs: 300 },
  },
  'that orders keys': {
    traits: { ...BROKER, ordersKeys: true },
    inOrder: true,
  },
}

for (const [kind, options] of Object.entries(KINDS)) {
  testContract(contract(options), {
    suffix: ` (a queue in memory ${kind})`,
    without: { L6: 'a queue in memory has no outage' },
  })
}
