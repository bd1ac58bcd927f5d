// A worker that removes expired claims, on MySQL or MariaDB. Start it in any number of processes: they do not disturb each other.
import { once } from 'node:events'
import { createGarbageCollector, createInbox } from 'txbox'
import { migrate, mysql } from 'txbox/mysql'
import { createPool } from 'mysql2/promise'

const pool = createPool({ uri: process.env['DATABASE_URL'] ?? '' })
await migrate(pool)
const database = mysql({ db: pool })

// Claims that expire at once, so that there is something to collect. A week is usual.
const shortLived = createInbox({ database, consumer: 'short-lived', retentionMs: 1000 })
const longLived = createInbox({ database, consumer: 'long-lived' })
for (let i = 0; i < 250; i++) await shortLived.run({ id: `m${i}`, payload: {} }, () => undefined)
await longLived.run({ id: 'm1', payload: {} }, () => undefined)

const gc = createGarbageCollector({ database, batchSize: 100, pauseMs: 5, intervalMs: 1000 })
let removed = 0
const enough = Promise.withResolvers<void>()
gc.on('collected', ({ inbox }) => {
  removed += inbox
  if (removed === 250) enough.resolve()
})
gc.on('error', console.error)
await gc.start()

// What a service does on SIGTERM; this example sends the signal to itself.
const terminated = once(process, 'SIGTERM')
void enough.promise.then(() => process.kill(process.pid, 'SIGTERM'))
await terminated
await gc.stop() // finishes the batch in flight

console.log('removed:', removed)
const again = await shortLived.run({ id: 'm1', payload: {} }, () => undefined)
const known = await longLived.run({ id: 'm1', payload: {} }, () => undefined)
console.log('after its retention:', again.status)
console.log('within its retention:', known.status)
await pool.end()

// prints:
// removed: 250
// after its retention: processed
// within its retention: duplicate
