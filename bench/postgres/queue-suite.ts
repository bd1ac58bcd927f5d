import { ratioOf, summarise } from '../measure/statistics.ts'
import { ratesBeside } from '../report/rates-table.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { graphileWorkerVariant } from './graphile-worker-variant.ts'
import { pgBossVariant } from './pg-boss-variant.ts'
import { HANDLERS, queueVariant, workerByHand, type QueueWork } from './queue-variants.ts'
import { makeBacklog } from './relay-backlog.ts'
import { interleavedDrains, type Drains } from './relay-drains.ts'
import { transaction } from './transaction.ts'
import { anyAccount, createWorkspace, creditStatement } from './workspace.ts'

const SCHEMA = 'queue_accounts'
const MESSAGES = 10_000

const TITLES: Readonly<Record<string, string>> = {
  byHand: 'by hand: DELETE … SKIP LOCKED and the update',
  graphileWorker: 'Graphile Worker',
  once: 'queue, a transaction each, no keys',
  onceKeyed: 'queue, a transaction each, 1000 keys',
  batches: 'queue, 100 messages a transaction, no keys',
  pgBoss: 'pg-boss, batches of 5000',
  atLeastOnce: 'queue, at least once, no keys',
}

/** Compares a consumer of the stored queue with a worker by hand and with other products, in one process. */
export function queueSuite(database: BenchDatabase): Suite {
  return {
    name: 'queue',
    async run({ rounds }) {
      const pool = database.pool({ max: 1 })
      await makeBacklog(pool, MESSAGES)
      await createWorkspace(pool, SCHEMA)
      const targets = [
        ...(await measureUpdates(database, pool, rounds)),
        ...(await measureNothing(database, pool, rounds)),
      ]
      await database.close(pool)
      return targets
    },
  }
}

type BenchPool = ReturnType<BenchDatabase['pool']>

async function measureUpdates(
  database: BenchDatabase,
  pool: BenchPool,
  rounds: number,
): Promise<readonly Target[]> {
  const statement = creditStatement(SCHEMA)
  const work: QueueWork = (client, account) => client.query(statement, [account])
  const handlers = database.pool({ max: HANDLERS })
  const variants = [
    await workerByHand(database, pool, MESSAGES, work),
    await graphileWorkerVariant(database, pool, MESSAGES, {
      handler: () => transaction(handlers, (client) => work(client, anyAccount())),
      concurrentJobs: HANDLERS,
    }),
    await queueVariant(database, pool, MESSAGES, 'once', { mode: 'once', keyed: false, work }),
    await queueVariant(database, pool, MESSAGES, 'onceKeyed', { mode: 'once', keyed: true, work }),
    await queueVariant(database, pool, MESSAGES, 'batches', { mode: 'batches', keyed: false, work }),
  ]
  console.log(
    `\nqueue: handling ${whole(MESSAGES)} messages of 500 bytes, each with one update, ${HANDLERS} at a time, one process`,
  )
  const drains = await interleavedDrains<string>(database, pool, variants, { rounds, pinnedHorizon: false })
  await database.close(handlers)
  print(drains, 'byHand')
  return [
    target('queue, a transaction each: rate ÷ by hand', 1, drains['once']!, drains['byHand']!),
    target(
      'queue, a transaction each: rate ÷ Graphile Worker',
      1.3,
      drains['once']!,
      drains['graphileWorker']!,
    ),
  ]
}

async function measureNothing(
  database: BenchDatabase,
  pool: BenchPool,
  rounds: number,
): Promise<readonly Target[]> {
  const work: QueueWork = async () => undefined
  const variants = [
    await graphileWorkerVariant(database, pool, MESSAGES),
    await pgBossVariant(database, pool, MESSAGES),
    await queueVariant(database, pool, MESSAGES, 'atLeastOnce', {
      mode: 'at-least-once',
      keyed: false,
      work,
    }),
  ]
  console.log(`\nqueue: handling ${whole(MESSAGES)} messages by a handler that does nothing, one process`)
  const drains = await interleavedDrains<string>(database, pool, variants, { rounds, pinnedHorizon: false })
  print(drains, 'graphileWorker')
  const best = drains['pgBoss']!.rates.map((rate, n) => Math.max(rate, drains['graphileWorker']!.rates[n]!))
  return [
    target('queue, no-op handler: rate ÷ best of the peers', 1.5, drains['atLeastOnce']!, { rates: best }),
  ]
}

function target(what: string, atLeast: number, ours: Drains, other: Pick<Drains, 'rates'>): Target {
  return {
    what,
    bound: { atLeast },
    ratio: ratioOf(ours.rates, other.rates),
    figures: ratesBeside(ours.rates, 'the other', other.rates),
  }
}

function print(drains: Readonly<Record<string, Drains>>, other: string): void {
  console.log(
    formatTable(
      ['', 'messages/s (min–max)', 'ratio to the first (min–max)', 'WAL bytes: store + handle + vacuum'],
      Object.entries(drains).map(([name, { rates, storeBytes, relayBytes, vacuumBytes }]) => {
        const median = (samples: readonly number[]): string => whole(summarise(samples).median)
        return [
          TITLES[name] ?? name,
          wholeSpread(summarise(rates)),
          ratioSpread(ratioOf(rates, drains[other]!.rates)),
          `${median(storeBytes)} + ${median(relayBytes)} + ${median(vacuumBytes)}`,
        ]
      }),
    ),
  )
}
