import { setTimeout as pause } from 'node:timers/promises'
import type { Pool } from 'pg'
import { orderOfTurn } from '../measure/rotation.ts'
import type { BenchDatabase } from './bench-database.ts'
import { checkpoint } from './workspace.ts'

/** One way to drain a backlog, with its own tables. */
export interface DrainVariant<N extends string = string> {
  readonly name: N
  readonly schema: string
  /** The table of the messages, which is emptied before each filling. */
  readonly table: string
  /** The number of messages of a drain. */
  readonly messages: number
  /** Fills the empty table from the backlog. The commits of the business transactions are not measured. */
  fill(pool: Pool): Promise<void>
  /** Drains the table, from opening the first connection until the last message is published. The table may be empty later. */
  drain(): Promise<Drained>
  /** The number of messages that are left. The measured time ends when there are none. */
  left(pool: Pool): Promise<number>
}

export interface Drained {
  readonly published: number
  /** Cleans up after a drain. This is not timed. */
  readonly end?: () => Promise<void>
}

export interface DrainOptions {
  readonly rounds: number
  /** An old transaction keeps every deleted row from being removed, or skipped by a scan, while the drain continues. */
  readonly pinnedHorizon: boolean
}

/** The results of the drains of one variant, with one figure for each round. */
export interface Drains {
  /** Messages per second. */
  readonly rates: number[]
  /** Bytes of write-ahead log per message: to store the message, to relay it, and to vacuum afterwards. */
  readonly storeBytes: number[]
  readonly relayBytes: number[]
  readonly vacuumBytes: number[]
  /** Dead rows per message that the relay left, including the rows of leases. */
  readonly deadRows: number[]
}

/** Fills and drains the tables of each variant in turn. Only the drain is timed. The first round is the warm-up. */
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
      // A checkpoint before the filling: messages are usually relayed soon, when their pages need no full image.
      await checkpoint(pool)
      await log.mark()
      await variant.fill(pool)
      const stored = await log.mark()
      await pool.query(`vacuum analyze ${table}`)
      const unpin = pinnedHorizon ? await pinHorizon(database) : undefined
      await log.mark()
      const startedAt = performance.now()
      const { published, end } = await variant.drain()
      await emptied(variant, pool)
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

/**
 * Waits until the table is empty: some peers report a message when its handler has returned, and remove or mark a whole batch
 * of messages afterwards. Gives up after ten seconds; the caller then finds what is left.
 */
async function emptied(variant: DrainVariant, pool: Pool): Promise<void> {
  const giveUpAt = performance.now() + 10_000
  while ((await variant.left(pool)) > 0 && performance.now() < giveUpAt) await pause(1)
}

/** The write-ahead log of the whole server, which includes the writes of other clients. */
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

/** Backends report their counts when they end, shortly after their clients: polls until the counts no longer change. */
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

/** The number of rows of a table that meet the condition `where`. */
export async function rowsIn(pool: Pool, table: string, where = 'true'): Promise<number> {
  const { rows } = await pool.query<{ count: string }>(
    `select count(*) as count from ${table} where ${where}`,
  )
  return Number(rows[0]!.count)
}
