import { randomUUID } from 'node:crypto'
import { migrate } from '@txbox/postgres'
import type { Pool } from 'pg'
import type { BenchOptions } from '../arguments.ts'
import { interleavedRates } from '../measure/interleaved-rates.ts'
import { ratioOf, summarise } from '../measure/statistics.ts'
import { formatTable, ratioSpread, wholeSpread } from '../report/table.ts'
import type { BenchDatabase } from './bench-database.ts'
import { checkpoint } from './workspace.ts'

const SCHEMA = 'gc_partitions'
/** The partitions: one for each day of a week, and one for the current day. */
const DAYS = 8
const CLAIMS = 1_000_000

/**
 * Measures the cost per claim of daily partitions, which are dropped instead of deleting rows. Each partition has its own
 * unique index, so that each claim must be searched in all other partitions. (At midnight two claims could both win.)
 */
export async function comparePartitions(database: BenchDatabase, options: BenchOptions): Promise<void> {
  console.log(
    `\ngc: a claim in one table, and in ${DAYS} partitions by day, among ${CLAIMS.toLocaleString('en')} live claims`,
  )
  const pool = database.pool({ max: 1 })
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  await migrate(pool, { schema: SCHEMA })
  await createPartitions(pool)
  await checkpoint(pool)
  const claim = (text: string) => async (): Promise<void> =>
    void (await pool.query(text, ['billing', randomUUID(), 604_800_000]))
  const measured = await interleavedRates(
    [
      { name: 'one', transaction: claim(ONE) },
      { name: 'parts', transaction: claim(PARTS) },
    ] as const,
    { ...options, clients: 1 },
  )
  const dropMs = await timeOf(() => pool.query(`drop table ${SCHEMA}.parts_0`))
  await database.close(pool)
  console.log(
    formatTable(
      ['', 'claims/s (min–max)', 'rate ÷ one table (min–max)'],
      (['one', 'parts'] as const).map((name) => [
        name === 'one' ? 'one table' : `${DAYS} partitions`,
        wholeSpread(summarise(measured[name].perRound)),
        ratioSpread(ratioOf(measured[name].perRound, measured.one.perRound)),
      ]),
    ),
  )
  console.log(`dropping a partition: ${dropMs.toFixed(1)} ms, under an exclusive lock on the table`)
}

const VALUES =
  "$1, $2, null, clock_timestamp(), clock_timestamp() + $3::double precision * interval '1 millisecond'"

const ONE = `
insert into ${SCHEMA}.inbox (consumer, key, correlation_id, processed_at, expires_at)
values (${VALUES})
on conflict (consumer, key) do nothing
returning processed_at`

const PARTS = `
insert into ${SCHEMA}.parts (consumer, key, correlation_id, processed_at, expires_at, day)
select ${VALUES}, ${DAYS - 1}
where not exists (select from ${SCHEMA}.parts where consumer = $1 and key = $2 and day <> ${DAYS - 1})
on conflict (consumer, key, day) do nothing
returning processed_at`

async function createPartitions(pool: Pool): Promise<void> {
  const columns = `'billing', md5(n::text), now() - interval '1 day', now() + interval '1 day'`
  await pool.query(`
    insert into ${SCHEMA}.inbox (consumer, key, processed_at, expires_at)
      select ${columns} from generate_series(1, ${CLAIMS}) as n;
    create table ${SCHEMA}.parts (
      processed_at timestamptz not null, expires_at timestamptz not null,
      consumer text collate "C" not null, key text collate "C" not null, correlation_id text, day smallint not null,
      primary key (consumer, key, day)
    ) partition by list (day)`)
  for (let day = 0; day < DAYS; day++) {
    await pool.query(
      `create table ${SCHEMA}.parts_${day} partition of ${SCHEMA}.parts for values in (${day})`,
    )
  }
  await pool.query(`
    insert into ${SCHEMA}.parts (consumer, key, processed_at, expires_at, day)
      select ${columns}, n % ${DAYS} from generate_series(1, ${CLAIMS}) as n`)
  await pool.query(`vacuum analyze ${SCHEMA}.inbox, ${SCHEMA}.parts`)
}

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}
