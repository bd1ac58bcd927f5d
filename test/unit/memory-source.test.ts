import { MemorySource } from '../support/subjects/memory-source.ts'
import { sourceContract } from '../support/subjects/source-contract.ts'

for (const countsDeliveries of [true, false]) {
  sourceContract(`in memory, counts: ${countsDeliveries}`, async () => {
    const source = new MemorySource({ countsDeliveries })
    return {
      source,
      send: async (ids) => {
        for (const id of ids) source.send(id)
      },
      cut: () => source.cut(),
      left: async () => source.left.length - source.out,
      rejected: async () => source.rejected.map(({ id }) => id),
    }
  })
}
