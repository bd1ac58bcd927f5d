import { ratioOf, summarise } from '../measure/statistics.ts'
import { ratesBeside } from '../report/rates-table.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { graphileWorkerVariant } from './graphile-worker-variant.ts'
import { localStatementsAlone, localVariant } from './local-variants.ts'
import { pgBossVariant, transactionalPgBossVariant } from './pg-boss-variant.ts'
import { BATCH, HANDLERS, queueVariant, workerByHand, type QueueWork } from './queue-variants.ts'
import { makeBacklog } from './relay-backlog.ts'
import { interleavedDrains, type Drains } from './relay-drains.ts'
import { transaction } from './transaction.ts'
import { anyAccount, anyAccounts, createWorkspace, creditAllStatement, creditStatement } from './workspace.ts'

const SCHEMA = 'local_accounts'
const BATCH_SCHEMA = 'local_batch_accounts'
const MESSAGES = 10_000
/** Where messages are handled faster, more of them are needed until the start of a worker no longer counts. */
const MANY_MESSAGES = 50_000
/** So many that two transactions of a hundred updates each rarely want the same row: they would wait for each other. */
const ACCOUNTS_OF_BATCHES = 500_000

const TITLES: Readonly<Record<string, string>> = {
  byHand: 'by hand: DELETE … SKIP LOCKED and the update',
  graphileWorker: 'Graphile Worker',
  queue: 'stored queue, a transaction each, no keys',
  local: 'local consumer, a transaction each, no keys',
  localKeyed: 'local consumer, a transaction each, 1000 keys',
  floor: 'its statements without the consumer',
  pgBossBatches: `pg-boss, transactional, batches of ${BATCH}`,
  batches: `local consumer, ${BATCH} messages a transaction, no keys`,
  batchesKeyed: `local consumer, ${BATCH} messages a transaction, 1000 keys`,
  batchesFloor: 'its statements without the consumer',
  pgBoss: 'pg-boss, batches of 5000',
  nothing: 'local consumer, at least once, no keys',
  nothingKeyed: 'local consumer, at least once, 1000 keys',
  nothingFloor: `its settlements without the consumer, ${BATCH} messages each`,
}

type BenchPool = ReturnType<BenchDatabase['pool']>

/** Compares a local consumer with a worker by hand and with other products, in one process. */
export function localSuite(database: BenchDatabase): Suite {
  return {
    name: 'local',
    async run({ rounds }) {
      const pool = database.pool({ max: 1 })
      await makeBacklog(pool, MANY_MESSAGES)
      await createWorkspace(pool, SCHEMA)
      await createWorkspace(pool, BATCH_SCHEMA, ACCOUNTS_OF_BATCHES)
      const targets = [
        ...(await measureUpdates(database, pool, rounds)),
        ...(await measureBatches(database, pool, rounds)),
        ...(await measureNothing(database, pool, rounds)),
      ]
      await database.close(pool)
      return targets
    },
  }
}

/** One message a transaction. */
async function measureUpdates(
  database: BenchDatabase,
  pool: BenchPool,
  rounds: number,
): Promise<readonly Target[]> {
  const statement = creditStatement(SCHEMA)
  const work: QueueWork = (client) => client.query(statement, [anyAccount()])
  const handlers = database.pool({ max: HANDLERS })
  const local = await localVariant(database, pool, MESSAGES, 'local', { mode: 'once', keyed: false, work })
  const variants = [
    await workerByHand(database, pool, MESSAGES, work),
    await graphileWorkerVariant(database, pool, MESSAGES, {
      handler: () => transaction(handlers, (client) => work(client, 1)),
      concurrentJobs: HANDLERS,
    }),
    await queueVariant(database, pool, MESSAGES, 'queue', { mode: 'once', keyed: false, work }),
    local,
    await localVariant(database, pool, MESSAGES, 'localKeyed', { mode: 'once', keyed: true, work }),
    localStatementsAlone(database, local, 'floor', { limit: 1, work }),
  ]
  console.log(
    `\nlocal: handling ${whole(MESSAGES)} messages of 500 bytes, each with one update, ${HANDLERS} at a time, one process`,
  )
  const drains = await interleavedDrains<string>(database, pool, variants, { rounds, pinnedHorizon: false })
  await database.close(handlers)
  print(drains, 'byHand')
  const wal = (of: Drains): number[] => of.storeBytes.map((bytes, n) => bytes + of.relayBytes[n]!)
  return [
    target(
      'local, a transaction each, keyed: rate ÷ by hand',
      0.85,
      drains['localKeyed']!,
      drains['byHand']!,
    ),
    {
      what: 'local, a transaction each: WAL a message ÷ stored queue',
      bound: { atMost: 0.8 },
      ratio: ratioOf(wal(drains['local']!), wal(drains['queue']!)),
      figures: `${whole(summarise(wal(drains['local']!)).median)} beside ${whole(summarise(wal(drains['queue']!)).median)} bytes`,
    },
  ]
}

/** Many messages a transaction, whose handler updates as many accounts by one statement. */
async function measureBatches(
  database: BenchDatabase,
  pool: BenchPool,
  rounds: number,
): Promise<readonly Target[]> {
  const statement = creditAllStatement(BATCH_SCHEMA)
  const accountsOf = (messages: number): number[] => anyAccounts(messages, ACCOUNTS_OF_BATCHES)
  const work: QueueWork = (client, messages) => client.query(statement, [accountsOf(messages)])
  const how = { mode: 'batches', work } as const
  const batches = await localVariant(database, pool, MANY_MESSAGES, 'batches', { ...how, keyed: false })
  const variants = [
    await transactionalPgBossVariant(database, pool, MANY_MESSAGES, {
      batchSize: BATCH,
      workers: HANDLERS,
      work: (tx, jobs) => tx.executeSql(statement, [accountsOf(jobs)]),
    }),
    batches,
    await localVariant(database, pool, MANY_MESSAGES, 'batchesKeyed', { ...how, keyed: true }),
    localStatementsAlone(database, batches, 'batchesFloor', { limit: BATCH, work }),
  ]
  console.log(
    `\nlocal: handling ${whole(MANY_MESSAGES)} messages in transactions of ${BATCH}, each with one statement, ${HANDLERS} at a time, ` +
      'one process',
  )
  const drains = await interleavedDrains<string>(database, pool, variants, { rounds, pinnedHorizon: false })
  print(drains, 'pgBossBatches')
  const what = `local, ${BATCH} a transaction, keyed: rate ÷ pg-boss, transactional`
  return [target(what, 1.5, drains['batchesKeyed']!, drains['pgBossBatches']!)]
}

async function measureNothing(
  database: BenchDatabase,
  pool: BenchPool,
  rounds: number,
): Promise<readonly Target[]> {
  const how = { mode: 'at-least-once', work: async () => undefined } as const
  const nothing = await localVariant(database, pool, MANY_MESSAGES, 'nothing', { ...how, keyed: false })
  const variants = [
    await graphileWorkerVariant(database, pool, MANY_MESSAGES),
    await pgBossVariant(database, pool, MANY_MESSAGES),
    nothing,
    await localVariant(database, pool, MANY_MESSAGES, 'nothingKeyed', { ...how, keyed: true }),
    localStatementsAlone(database, nothing, 'nothingFloor', { limit: BATCH }),
  ]
  console.log(
    `\nlocal: handling ${whole(MANY_MESSAGES)} messages by a handler that does nothing, one process`,
  )
  const drains = await interleavedDrains<string>(database, pool, variants, { rounds, pinnedHorizon: false })
  print(drains, 'graphileWorker')
  const best = {
    rates: drains['pgBoss']!.rates.map((rate, n) => Math.max(rate, drains['graphileWorker']!.rates[n]!)),
  }
  return [target('local, no-op handler: rate ÷ best of the peers', 2, drains['nothing']!, best)]
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
