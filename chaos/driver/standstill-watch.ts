import { setTimeout as pause } from 'node:timers/promises'
import { SHARDS } from '@txbox/core/internal'
import { connectDirectly, type DirectConnection } from '../database/direct-connection.ts'
import { txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'

const LOOK_INTERVAL_MS = 300

/** The next message of a shard, and how long it has been the next one while the database and the broker were well. */
interface Head {
  readonly what: string
  readonly sinceMs: number
}

export interface Standstill {
  readonly shard: number
  readonly ms: number
  /** The message that did not move: its table and its number. */
  readonly what: string
}

/**
 * Looks at the first message of each shard, past all faults, several times a second. A shard whose first message stays
 * the same has stood still; the time counts while the database and the broker are well. A message that kills or hangs
 * relays does not count itself, since it is tried several times, each after a lease: only the messages behind it do.
 */
export class StandstillWatch {
  readonly #engine: Engine
  readonly #url: () => string
  readonly #poison: ReadonlySet<string>
  readonly #heads = new Map<number, Head>()
  #isWell = true
  #isClosed = false
  #longest: Standstill = { shard: 0, ms: 0, what: '' }
  #loop: Promise<void> = Promise.resolve()

  /** @param poison the ids of the messages that kill or hang relays. */
  constructor(engine: Engine, url: () => string, poison: ReadonlySet<string>) {
    this.#engine = engine
    this.#url = url
    this.#poison = poison
  }

  start(): void {
    this.#loop = this.#watch()
  }

  /** While the database or the broker is not well, nothing counts; afterwards all clocks begin again. */
  set isWell(isWell: boolean) {
    this.#isWell = isWell
    if (!isWell) this.#heads.clear()
  }

  get longest(): Standstill {
    return this.#longest
  }

  /** How long each shard that has something to do has stood still, the longest first. */
  standing(): readonly Standstill[] {
    const now = performance.now()
    return [...this.#heads]
      .map(([place, { what, sinceMs }]) => ({ shard: place % SHARDS, what, ms: now - sinceMs }))
      .toSorted((a, b) => b.ms - a.ms)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#loop
  }

  async #watch(): Promise<void> {
    let connection: DirectConnection | undefined
    while (!this.#isClosed) {
      try {
        connection ??= await connectDirectly(this.#url())
        await this.#look(connection)
      } catch {
        // The database is away: the fault that did it says so, and nothing counts.
        this.#heads.clear()
        await connection?.close()
        connection = undefined
      }
      await pause(LOOK_INTERVAL_MS)
    }
    await connection?.close()
  }

  async #look(connection: DirectConnection): Promise<void> {
    const { outbox, parked } = txboxTables(this.#engine)
    const clock = this.#engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
    const poison = ['none', ...this.#poison]
    const notPoison = `not in (${poison.map(() => '?').join(', ')})`
    // A message that is blocked goes only behind the parked ones of its key, which are watched for themselves.
    const rows = await connection.query(
      `select o.shard, concat('outbox ', min(o.seq)) as what from ${outbox} as o
       where o.id ${notPoison} group by o.shard
       union all
       select p.shard, concat('parked ', min(p.place), ' attempts ', min(p.attempts)) as what from ${parked} as p
       where p.due_at <= ${clock} and p.dead_at is null and p.id ${notPoison} group by p.shard`,
      [...poison, ...poison],
    )
    if (!this.#isWell) return
    const now = performance.now()
    const seen = new Map<number, string>()
    for (const row of rows) {
      const shard = Number(row['shard'])
      const table = String(row['what']).startsWith('outbox') ? 0 : SHARDS
      seen.set(shard + table, String(row['what']))
    }
    for (const [place, head] of this.#heads) {
      const ms = now - head.sinceMs
      if (ms > this.#longest.ms) this.#longest = { shard: place % SHARDS, ms, what: head.what }
      if (seen.get(place) !== head.what) this.#heads.delete(place)
    }
    for (const [place, what] of seen) {
      if (!this.#heads.has(place)) this.#heads.set(place, { what, sinceMs: now })
    }
  }
}
