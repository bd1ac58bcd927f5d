// One of several processes that handle the messages of a queue. It reports how many it has handled.
import { once } from 'node:events'
import { BenchDatabase } from './bench-database.ts'
import { graphileWorker } from './graphile-worker-variant.ts'
import { pgBossWorker } from './pg-boss-variant.ts'
import type { QueueProcess } from './queue-processes.ts'
import { HANDLERS, byHandWorker, consumerWorker, type QueueWork, type QueueWorker } from './queue-variants.ts'
import { transaction } from './transaction.ts'
import { anyAccount, creditStatement } from './workspace.ts'

/** How often a process reports, in milliseconds. */
const REPORT_MS = 5

const { worker, url, schema, accounts } = JSON.parse(process.argv[2] ?? '{}') as QueueProcess
const database = BenchDatabase.existing(url)
const statement = creditStatement(accounts)
const update: QueueWork = (client) => client.query(statement, [anyAccount()])
const workers: Readonly<Record<QueueProcess['worker'], () => QueueWorker>> = {
  byHand: () => byHandWorker(database, update),
  graphileWorker() {
    const handlers = database.pool({ max: HANDLERS })
    const handler = (): Promise<void> => transaction(handlers, (client) => update(client, 1))
    return graphileWorker(database, { handler, concurrentJobs: HANDLERS })
  },
  once: () => consumerWorker(database, schema, { mode: 'once', work: update }),
  nothing: () => consumerWorker(database, schema, { mode: 'at-least-once', work: async () => undefined }),
  graphileWorkerOfNothing: () => graphileWorker(database),
  pgBossOfNothing: () => pgBossWorker(database),
}

let handled = 0
const start = workers[worker]()
process.send?.('ready')
await once(process, 'message')
const end = await start(
  (count) => (handled += count),
  (error) => {
    throw error
  },
)
const reporting = setInterval(() => {
  if (handled > 0) process.send?.(handled)
  handled = 0
}, REPORT_MS)
await once(process, 'message')
clearInterval(reporting)
await end()
process.exit(0)
