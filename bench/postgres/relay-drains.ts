import { setTimeout as pause } from 'node:timers/promises'
import type { Pool } from 'pg'
import { orderOfTurn } from '../measure/rotation.ts'
import type { BenchDatabase } from './bench-database.ts'
import { checkpoint } from './workspace.ts'

/** One way to drain a backlog, with tables of its own. */
export interface DrainVariant<N extends string = string> {
  readonly name: N
  readonly schema: string
  /** What holds the messages: emptied before each filling. */
  readonly table: string
  /** How many messages a drain is of. */
  readonly messages: number
  /** Fills the empty table from the backlog; the commits of the business transactions are not in it. */
  fill(pool: Pool): Promise<void>
  /** From no connection at all until the last message has gone. */
  drain(): Promise<Drained>
  /** How many messages are not done, when `end` has resolved. */
  left(pool: Pool): Promise<number>
}

export interface Drained {
  readonly published: number
  /** What is left to do afterwards: it is not timed. */
  readonly end?: () => Promise<void>
}

export interface DrainOptions {
  readonly rounds: number
  /** An old transaction keeps every deleted row from being removed, or skipped by a scan, while the drain continues. */
  readonly pinnedHorizon: boolean
}

/** What the drains of one variant came to; one figure a round. */
export interface Drains {
  /** Messages a second. */
  readonly rates: number[]
  /** Write-ahead log a message, in bytes: to store it, to relay it, and to vacuum after it. */
  readonly storeBytes: number[]
  readonly relayBytes: number[]
  readonly vacuumBytes: number[]
  /** Dead rows a message that the relay left behind, leases included. */
  readonly deadRows: number[]
}

/** Fills and drains the tables of each variant in turns; only the draining is timed. The first round is the warm-up. */
export async function interleavedDrains<N extends string>(
  database: BenchDatabase,
  pool: Pool,
  variants: readonly DrainVariant<N>[],
  { rounds, pinnedHorizon }: DrainOptions,
): Promise<Readonly<Record<N, Drains>>> {
  const drains = Object.fromEntries(
    variants.map(({ name }) => [
      name,
      { rates: [], storeBytes: [], relayBytes: [], vacuumBytes: [], deadRows: [] },
    ]),
  ) as unknown as Record<N, Drains>
  for (let round = -1; round < rounds; round++) {
    for (const variant of orderOfTurn(variants, round + 1)) {
      const { schema, table, name, messages } = variant
      const log = new WriteAheadLog(pool)
      await pool.query(`truncate ${table}`)
      // Before the filling: messages are usually relayed soon, when their pages need no full image any more.
      await checkpoint(pool)
      await log.mark()
      await variant.fill(pool)
      const stored = await log.mark()
      await pool.query(`vacuum analyze ${table}`)
      const unpin = pinnedHorizon ? await pinHorizon(database) : undefined
      await log.mark()
      const startedAt = performance.now()
      const { published, end } = await variant.drain()
      const seconds = (performance.now() - startedAt) / 1000
      await end?.()
      const relayed = await log.mark()
      const dead = await deadRows(pool, schema)
      await unpin?.()
      await pool.query(`vacuum ${table}`)
      const vacuumed = await log.mark()
      if (published !== messages || (await variant.left(pool)) > 0) {
        throw new Error(`${name}: ${published} of ${messages} messages were published.`)
      }
      if (round < 0) continue
      drains[name].rates.push(messages / seconds)
      drains[name].storeBytes.push(stored / messages)
      drains[name].relayBytes.push(relayed / messages)
      drains[name].vacuumBytes.push(vacuumed / messages)
      drains[name].deadRows.push(dead / messages)
    }
  }
  return drains
}

/** The server's log as a whole: what others write there meanwhile is in it. */
class WriteAheadLog {
  readonly #pool: Pool
  #position = '0/0'

  constructor(pool: Pool) {
    this.#pool = pool
  }

  /** @returns bytes since the last mark. */
  async mark(): Promise<number> {
    const { rows } = await this.#pool.query<{ position: string; bytes: string }>(
      `select now.position::text, (now.position - $1::pg_lsn)::text as bytes
       from (select pg_current_wal_insert_lsn() as position) as now`,
      [this.#position],
    )
    this.#position = rows[0]!.position
    return Number(rows[0]!.bytes)
  }
}

/** @returns a function that ends it. */
async function pinHorizon(database: BenchDatabase): Promise<() => Promise<void>> {
  const client = database.client()
  await client.connect()
  await client.query('begin isolation level repeatable read')
  await client.query('select count(*) from pg_class')
  return () => client.end()
}

/** Backends tell their counts as they end, which is a little after their clients have gone: asked until it stands still. */
async function deadRows(pool: Pool, schema: string): Promise<number> {
  let dead = -1
  for (let unchanged = 0; unchanged < 3;) {
    const { rows } = await pool.query<{ dead: string }>(
      'select coalesce(sum(n_dead_tup), 0) as dead from pg_stat_user_tables where schemaname = $1',
      [schema],
    )
    const now = Number(rows[0]!.dead)
    unchanged = now === dead ? unchanged + 1 : 0
    dead = now
    await pause(50)
  }
  return dead
}

/** How many rows of a table are there, of those that `where` says. */
export async function rowsIn(pool: Pool, table: string, where = 'true'): Promise<number> {
  const { rows } = await pool.query<{ count: string }>(
    `select count(*) as count from ${table} where ${where}`,
  )
  return Number(rows[0]!.count)
}
