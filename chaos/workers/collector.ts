// A garbage collector, which runs all the time.
import { createGarbageCollector } from '@txbox/gc'
import { connectedDatabase } from './database-pool.ts'
import { Worker } from './worker.ts'

const worker = new Worker()
const collector = createGarbageCollector({
  database: connectedDatabase(worker, 1, 'driver'),
  intervalMs: 1000,
  batchSize: 200,
})
collector.on('collected', ({ inbox }) => worker.count('claims collected', inbox))
collector.on('error', ({ error }) => worker.failed(error))

for (;;) {
  try {
    await collector.start()
    break
  } catch (error) {
    worker.failed(error)
    if (worker.ending.aborted) break
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
worker.ready()
await new Promise<void>((resolve) => worker.ending.addEventListener('abort', () => resolve(), { once: true }))
await collector.stop({ timeoutMs: 10_000 })
await worker.end()
