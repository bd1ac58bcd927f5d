import { allocatedBytes } from '../measure/allocated-bytes.ts'
import { ratioOf, summarise, type Summary } from '../measure/statistics.ts'
import { ratesBeside } from '../report/rates-table.ts'
import { formatTable, hundredthsSpread, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { graphileWorkerVariant } from './graphile-worker-variant.ts'
import { pgBossVariant, transactionalPgBossVariant } from './pg-boss-variant.ts'
import { BlockedKeys, type ReceiveTimes } from './queue-blocked-keys.ts'
import { commitToHandlerLatency, type QueueLatency } from './queue-latency.ts'
import { QueueProcesses, type QueueProcess } from './queue-processes.ts'
import { sourceAlone } from './queue-source-alone.ts'
import { statementsAlone } from './queue-statements-alone.ts'
import {
  BATCH,
  HANDLERS,
  queueVariant,
  transactionsAlone,
  workerByHand,
  type QueueWork,
} from './queue-variants.ts'
import { makeBacklog } from './relay-backlog.ts'
import { interleavedDrains, type Drains, type DrainVariant } from './relay-drains.ts'
import { transaction } from './transaction.ts'
import { anyAccount, anyAccounts, createWorkspace, creditAllStatement, creditStatement } from './workspace.ts'

const SCHEMA = 'queue_accounts'
const MESSAGES = 10_000
/** Where messages are handled faster, more of them are needed until the start of a worker no longer counts. */
const MANY_MESSAGES = 50_000
/** So many that two transactions of a hundred updates each rarely want the same row: they would wait for each other. */
const ACCOUNTS_OF_BATCHES = 500_000
const BATCH_SCHEMA = 'queue_batch_accounts'
const PROCESSES = 4
/** As many messages as one receive of the consumer returns. More clients wait for one another. */
const RECEIVES_OF_NOTHING = { limit: 1000, clients: 2 }
const BLOCKED_MESSAGES = 1_000_000
const MESSAGES_PER_SECOND = 100

const TITLES: Readonly<Record<string, string>> = {
  byHand: 'by hand: DELETE … SKIP LOCKED and the update',
  alone: 'the same transactions without a queue',
  graphileWorker: 'Graphile Worker',
  once: 'queue, a transaction each, no keys',
  onceKeyed: 'queue, a transaction each, 1000 keys',
  batches: `queue, ${BATCH} messages a transaction, no keys`,
  batchesKeyed: `queue, ${BATCH} messages a transaction, 1000 keys`,
  pgBossBatches: `pg-boss, transactional, batches of ${BATCH}`,
  pgBoss: 'pg-boss, batches of 5000',
  atLeastOnce: 'queue, at least once, no keys',
  source: 'the source of the queue without its consumer',
  statements: 'the statements of the queue without its consumer',
}

type BenchPool = ReturnType<BenchDatabase['pool']>

/** Compares a consumer of the stored queue with a worker by hand and with other products, in one process. */
export function queueSuite(database: BenchDatabase): Suite {
  return {
    name: 'queue',
    async run({ rounds, secondsPerRound }) {
      const pool = database.pool({ max: 1 })
      await makeBacklog(pool, MANY_MESSAGES)
      await createWorkspace(pool, SCHEMA)
      await createWorkspace(pool, BATCH_SCHEMA, ACCOUNTS_OF_BATCHES)
      const targets = [
        ...(await measureUpdates(database, pool, rounds)),
        ...(await measureBatches(database, pool, rounds)),
        ...(await measureNothing(database, pool, rounds)),
        ...(await measureBlockedKeys(database, rounds)),
        ...(await measureLatency(database, rounds, secondsPerRound * 5)),
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
  const variants = [
    await workerByHand(database, pool, MESSAGES, work),
    await graphileWorkerVariant(database, pool, MESSAGES, {
      handler: () => transaction(handlers, (client) => work(client, 1)),
      concurrentJobs: HANDLERS,
    }),
    await queueVariant(database, pool, MESSAGES, 'once', { mode: 'once', keyed: false, work }),
    await queueVariant(database, pool, MESSAGES, 'onceKeyed', { mode: 'once', keyed: true, work }),
    transactionsAlone(database, MESSAGES, work),
  ]
  console.log(
    `\nqueue: handling ${whole(MESSAGES)} messages of 500 bytes, each with one update, ${HANDLERS} at a time, one process`,
  )
  const drains = await interleavedDrains<string>(database, pool, variants, { rounds, pinnedHorizon: false })
  await database.close(handlers)
  print(drains, 'byHand')
  const apart = await inProcesses(database, pool, rounds, [
    [variants[0]!, 'byHand'],
    [variants[1]!, 'graphileWorker'],
    [variants[2]!, 'once'],
  ])
  print(apart, 'byHand')
  return [
    target(
      `queue, a transaction each, ${PROCESSES} processes: rate ÷ by hand`,
      1,
      apart['once']!,
      apart['byHand']!,
    ),
    target('queue, a transaction each: rate ÷ by hand', 1, drains['once']!, drains['byHand']!),
    target(
      'queue, a transaction each: rate ÷ Graphile Worker',
      1.3,
      drains['once']!,
      drains['graphileWorker']!,
    ),
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
  const batches = await queueVariant(database, pool, MANY_MESSAGES, 'batches', {
    mode: 'batches',
    keyed: false,
    work,
  })
  const variants = [
    await transactionalPgBossVariant(database, pool, MANY_MESSAGES, {
      batchSize: BATCH,
      workers: HANDLERS,
      work: (tx, jobs) => tx.executeSql(statement, [accountsOf(jobs)]),
    }),
    batches,
    await queueVariant(database, pool, MANY_MESSAGES, 'batchesKeyed', { mode: 'batches', keyed: true, work }),
    statementsAlone(database, batches, 'statements', { limit: BATCH, clients: HANDLERS, work }),
  ]
  console.log(
    `\nqueue: handling ${whole(MANY_MESSAGES)} messages in transactions of ${BATCH}, each with one statement, ${HANDLERS} at a time, ` +
      'one process',
  )
  const drains = await interleavedDrains<string>(database, pool, variants, { rounds, pinnedHorizon: false })
  print(drains, 'pgBossBatches')
  return [
    target(
      `queue, ${BATCH} a transaction: rate ÷ pg-boss, transactional`,
      2,
      drains['batches']!,
      drains['pgBossBatches']!,
    ),
  ]
}

async function measureNothing(
  database: BenchDatabase,
  pool: BenchPool,
  rounds: number,
): Promise<readonly Target[]> {
  const work: QueueWork = async () => undefined
  const atLeastOnce = await queueVariant(database, pool, MANY_MESSAGES, 'atLeastOnce', {
    mode: 'at-least-once',
    keyed: false,
    work,
  })
  const variants = [
    await graphileWorkerVariant(database, pool, MANY_MESSAGES),
    await pgBossVariant(database, pool, MANY_MESSAGES),
    atLeastOnce,
    sourceAlone(database, atLeastOnce),
    statementsAlone(database, atLeastOnce, 'statements', RECEIVES_OF_NOTHING),
  ]
  console.log(
    `\nqueue: handling ${whole(MANY_MESSAGES)} messages by a handler that does nothing, one process`,
  )
  const drains = await interleavedDrains<string>(database, pool, variants, { rounds, pinnedHorizon: false })
  print(drains, 'graphileWorker')
  await printAllocations(pool, variants)
  const apart = await inProcesses(database, pool, rounds, [
    [variants[0]!, 'graphileWorkerOfNothing'],
    [variants[1]!, 'pgBossOfNothing'],
    [variants[2]!, 'nothing'],
  ])
  print(apart, 'graphileWorker')
  const best = (of: Readonly<Record<string, Drains>>): Pick<Drains, 'rates'> => ({
    rates: of['pgBoss']!.rates.map((rate, n) => Math.max(rate, of['graphileWorker']!.rates[n]!)),
  })
  return [
    target(
      'queue, no-op handler: rate ÷ statements alone',
      0.75,
      drains['atLeastOnce']!,
      drains['statements']!,
    ),
    target('queue, source alone: rate ÷ statements alone', 0.75, drains['source']!, drains['statements']!),
    target('queue, no-op handler: rate ÷ best of the peers', 1.5, drains['atLeastOnce']!, best(drains)),
    target(
      `queue, no-op handler, ${PROCESSES} processes: rate ÷ best of the peers`,
      1.5,
      apart['atLeastOnce']!,
      best(apart),
    ),
  ]
}

/** Prints what a drain allocates for each message. */
async function printAllocations(pool: BenchPool, variants: readonly DrainVariant[]): Promise<void> {
  const rows: string[][] = []
  for (const variant of variants) {
    await pool.query(`truncate ${variant.table}`)
    await variant.fill(pool)
    const bytes = await allocatedBytes(async () => (await variant.drain()).end?.())
    rows.push([TITLES[variant.name] ?? variant.name, (bytes / variant.messages / 1000).toFixed(1)])
  }
  console.log(formatTable(['', 'kB allocated a message, in the process of the handlers'], rows))
}

/** The same variants, each in several processes. */
function inProcesses(
  database: BenchDatabase,
  pool: BenchPool,
  rounds: number,
  variants: readonly (readonly [DrainVariant, QueueProcess['worker']])[],
): Promise<Readonly<Record<string, Drains>>> {
  console.log(`\nqueue: the same by ${PROCESSES} processes`)
  const apart = variants.map(([variant, worker]): DrainVariant => {
    const { schema, messages } = variant
    const config: QueueProcess = { worker, url: database.url, schema, accounts: SCHEMA }
    let processes: QueueProcesses
    return {
      ...variant,
      async fill(pool) {
        await variant.fill(pool)
        processes = await QueueProcesses.start(PROCESSES, config)
      },
      drain: () => processes.drain(messages),
    }
  })
  return interleavedDrains<string>(database, pool, apart, { rounds, pinnedHorizon: false })
}

async function measureBlockedKeys(database: BenchDatabase, rounds: number): Promise<readonly Target[]> {
  console.log(
    `\nqueue: a receive that finds nothing, ${whole(BLOCKED_MESSAGES)} messages behind 1000 keys in flight`,
  )
  const keys = await BlockedKeys.create(database, BLOCKED_MESSAGES)
  const times: ReceiveTimes[] = []
  for (let round = 0; round < rounds; round++) times.push(await keys.measure())
  await keys.close(database)
  const empty = times.map(({ emptyMs }) => emptyMs)
  const blocked = times.map(({ blockedMs }) => blockedMs)
  const inMs = (samples: readonly number[]): string => `${summarise(samples).median.toFixed(2)} ms`
  const figures = `${inMs(blocked)} beside ${inMs(empty)} in an empty queue`
  return [ofSamples('queue, a receive behind blocked keys ÷ empty', 2, ratioOf(blocked, empty), figures)]
}

async function measureLatency(
  database: BenchDatabase,
  rounds: number,
  seconds: number,
): Promise<readonly Target[]> {
  console.log(
    `\nqueue: from the answer to COMMIT to the handler, ${MESSAGES_PER_SECOND} messages a second, ${rounds} rounds of ${seconds} s`,
  )
  const latencies: QueueLatency[] = []
  for (let round = 0; round < rounds; round++) {
    latencies.push(
      await commitToHandlerLatency(database, { messagesPerSecond: MESSAGES_PER_SECOND, seconds }),
    )
  }
  const p50 = summarise(latencies.map(({ p50Ms }) => p50Ms))
  const p99 = summarise(latencies.map(({ p99Ms }) => p99Ms))
  console.log(
    formatTable(['p50 ms (min–max)', 'p99 ms (min–max)'], [[hundredthsSpread(p50), hundredthsSpread(p99)]]),
  )
  const figures = `${MESSAGES_PER_SECOND} messages a second`
  return [
    ofSamples("queue: 'notify', p50 in ms", 3, p50, figures),
    ofSamples("queue: 'notify', p99 in ms", 15, p99, figures),
  ]
}

function ofSamples(what: string, atMost: number, ratio: Summary, figures: string): Target {
  return { what, bound: { atMost }, ratio, figures }
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
