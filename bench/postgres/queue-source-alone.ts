import { postgres } from '@txbox/postgres'
import { createQueue, queueSource } from '@txbox/queue'
import type { BenchDatabase } from './bench-database.ts'
import { HANDLERS, PREFETCH_OF_NOTHING } from './queue-variants.ts'
import { rowsIn, type DrainVariant } from './relay-drains.ts'

/**
 * Receives and accepts by the source of a stored queue, without a consumer: messages are decoded and settled, but nothing is
 * ordered, counted or reported. `queue` is the variant whose tables are used.
 */
export function sourceAlone(database: BenchDatabase, queue: DrainVariant): DrainVariant<'source'> {
  const { schema, table, messages } = queue
  return {
    ...{ name: 'source', schema, table, messages },
    fill: (pool) => queue.fill(pool),
    async drain() {
      const pool = database.pool({ max: HANDLERS + 2 })
      const source = queueSource(createQueue({ database: postgres({ db: pool, schema }), name: 'orders' }))
      const failed = Promise.withResolvers<never>()
      const open = await source.open({ prefetch: PREFETCH_OF_NOTHING, failed: failed.reject })
      const { signal } = new AbortController()
      let published = 0
      const accepting = new Set<Promise<void>>()
      while (published < messages) {
        const deliveries = await Promise.race([
          open.receive(PREFETCH_OF_NOTHING - accepting.size, { signal }),
          failed.promise,
        ])
        published += deliveries.length
        for (const delivery of deliveries) {
          const accepted = delivery.accept().finally(() => accepting.delete(accepted))
          accepting.add(accepted)
        }
        if (accepting.size >= PREFETCH_OF_NOTHING) await Promise.race(accepting)
      }
      await Promise.all(accepting)
      return {
        published,
        async end() {
          await open.close()
          await database.close(pool)
        },
      }
    },
    left: (pool) => rowsIn(pool, table, "due_at is distinct from 'epoch'"),
  }
}
