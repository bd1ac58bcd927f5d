import { setTimeout as pause } from 'node:timers/promises'
import { createGarbageCollector, type GarbageCollector } from '@txbox/gc'
import { createInbox } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import type { Pool } from 'pg'
import type { BenchOptions } from '../arguments.ts'
import { percentile, ratioOf, summarise } from '../measure/statistics.ts'
import { formatTable, whole } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { comparePartitions } from './gc-partitions.ts'
import { anyAccount, checkpoint, createWorkspace, creditStatement } from './workspace.ts'

const SCHEMA = 'gc'
const EXPIRED = 1_000_000
/** More claims per second than a collector removes with its usual pauses, so that it always has work. */
const MOST_PER_SECOND = 20_000
const DELIVERIES_PER_SECOND = 200
/** A round of the usual length has too few deliveries for a 99th percentile. */
const SECONDS_FACTOR = 5

/** The results of one round of load. */
interface Round {
  readonly p50Ms: number
  readonly p99Ms: number
}

/** The effect of a running collector on the latency of `process`. */
export function gcSuite(database: BenchDatabase): Suite {
  return {
    name: 'gc',
    async run(options) {
      const target = await measure(database, options)
      if (options.full) await comparePartitions(database, options)
      return [target]
    },
  }
}

async function measure(database: BenchDatabase, options: BenchOptions): Promise<Target> {
  const seconds = options.secondsPerRound * SECONDS_FACTOR
  const expired = Math.max(EXPIRED, (options.rounds + 1) * seconds * MOST_PER_SECOND)
  console.log(
    `\ngc: ${DELIVERIES_PER_SECOND} inbox.process a second beside a collector with ${whole(expired)} expired claims; ` +
      `rounds of ${seconds} s each, with it idle and at work`,
  )
  const own = database.pool({ max: 2 })
  const clients = database.pool({ max: 16 })
  await own.query(`drop schema if exists ${SCHEMA} cascade`)
  await createWorkspace(own, SCHEMA)
  await fillExpired(own, expired)
  await checkpoint(own)
  const gc = createGarbageCollector({ database: postgres({ db: own, schema: SCHEMA }) })
  const idle: Round[] = []
  const busy: Round[] = []
  const deliver = delivering(clients)
  let removed = 0
  for (let round = -1; round < options.rounds; round++) {
    const quiet = await load(deliver, seconds)
    const { measured, rows } = await beside(gc, () => load(deliver, seconds))
    if (round < 0) continue
    idle.push(quiet)
    busy.push(measured)
    removed += rows
  }
  const unpaced = createGarbageCollector({ database: postgres({ db: own, schema: SCHEMA }), pauseMs: 0 })
  const wal = await walOfDeleting(own, unpaced)
  await database.close(clients)
  await database.close(own)
  print(idle, busy)
  console.log(
    `collector: ${whole(removed / (options.rounds * seconds))} claims a second while at work; ${whole(wal.bytes / wal.rows)} bytes of ` +
      `WAL a claim removed; the rest, ${whole(wal.rows)}, without load and without pauses in ${(wal.ms / 1000).toFixed(1)} s`,
  )
  const p99 = (rounds: readonly Round[]): readonly number[] => rounds.map(({ p99Ms }) => p99Ms)
  return {
    what: 'inbox.process beside the collector: p99 ÷ p99 with it idle',
    bound: { atMost: 2 },
    ratio: ratioOf(p99(busy), p99(idle)),
    figures: `${summarise(p99(busy)).median.toFixed(1)} ms vs ${summarise(p99(idle)).median.toFixed(1)} ms`,
  }
}

/** Old claims of other consumers, which have all expired, oldest first. */
async function fillExpired(pool: Pool, count: number): Promise<void> {
  await pool.query(
    `insert into ${SCHEMA}.inbox (consumer, key, processed_at, expires_at)
     select 'billing', md5(n::text), now() - interval '9 days', now() - interval '1 day' + n * interval '1 millisecond'
     from generate_series(1, $1::integer) as n`,
    [count],
  )
  await pool.query(`vacuum analyze ${SCHEMA}.inbox`)
}

function delivering(clients: Pool): () => Promise<void> {
  const inbox = createInbox({ database: postgres({ schema: SCHEMA }), consumer: 'live' })
  const credit = creditStatement(SCHEMA)
  let delivery = 0
  return async () => {
    const client = await clients.connect()
    try {
      await client.query('BEGIN')
      delivery += 1
      await inbox.process(client, { id: `${process.pid}-${delivery}`, payload: 1 }, () =>
        client.query(credit, [anyAccount()]),
      )
      await client.query('COMMIT')
    } finally {
      client.release()
    }
  }
}

/** A steady rate with random gaps. A delivery is timed from the moment when it was due, so that a stall is not hidden. */
async function load(deliver: () => Promise<void>, seconds: number): Promise<Round> {
  const latencies: number[] = []
  const underWay: Promise<void>[] = []
  const endsAt = performance.now() + seconds * 1000
  for (let next = performance.now(); next < endsAt;) {
    next += (-Math.log(1 - Math.random()) * 1000) / DELIVERIES_PER_SECOND
    await pause(Math.max(0, next - performance.now()))
    const due = next
    underWay.push(deliver().then(() => void latencies.push(performance.now() - due)))
  }
  await Promise.all(underWay)
  return { p50Ms: percentile(latencies, 50), p99Ms: percentile(latencies, 99) }
}

/** The load while the collector runs all the time. */
async function beside(
  gc: GarbageCollector,
  work: () => Promise<Round>,
): Promise<{ measured: Round; rows: number }> {
  const stopping = new AbortController()
  const running = gc.runOnce({ signal: stopping.signal })
  const measured = await work()
  stopping.abort()
  const collected = await running
  if (collected.complete) throw new Error('The collector had nothing left to do before the end of the load.')
  return { measured, rows: collected.inbox }
}

/** Removes the remaining claims, without load. */
async function walOfDeleting(
  pool: Pool,
  gc: GarbageCollector,
): Promise<{ bytes: number; rows: number; ms: number }> {
  const position = async (): Promise<string> =>
    (await pool.query<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn')).rows[0]!.lsn
  const before = await position()
  const { inbox, durationMs } = await gc.runOnce()
  const { rows } = await pool.query<{ bytes: string }>('select pg_wal_lsn_diff($1, $2)::text as bytes', [
    await position(),
    before,
  ])
  return { bytes: Number(rows[0]!.bytes), rows: inbox, ms: durationMs }
}

function print(idle: readonly Round[], busy: readonly Round[]): void {
  const row = (title: string, rounds: readonly Round[]): string[] => {
    const spread = (of: (round: Round) => number): string => {
      const { median, min, max } = summarise(rounds.map(of))
      return `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`
    }
    return [title, spread(({ p50Ms }) => p50Ms), spread(({ p99Ms }) => p99Ms)]
  }
  console.log(
    formatTable(
      ['', 'p50 ms (min–max)', 'p99 ms (min–max)'],
      [row('collector idle', idle), row('collector at work', busy)],
    ),
  )
}
