import { setTimeout as pause } from 'node:timers/promises'
import { SHARDS } from '@txbox/core/internal'
import { connectDirectly, type DirectConnection } from '../database/direct-connection.ts'
import { txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'

const LOOK_INTERVAL_MS = 300

/**
 * The messages of a shard that are next: the first message of the outbox, or all parked messages that are due. The time
 * is counted from the moment since which none of these messages has moved while the database and the broker were well.
 */
interface Head {
  readonly what: string
  readonly messages: ReadonlySet<string>
  readonly sinceMs: number
}

export interface Standstill {
  readonly shard: number
  readonly ms: number
  /** The message that did not move: its table and its number. */
  readonly what: string
}

/**
 * Looks at the next messages of each shard, past all faults, several times a second. A shard has stood still if the first
 * message of its outbox stays the same, or if not one of its parked messages that are due has been tried: those are taken
 * by the time since which they are due, and suspects one at a time in a whole process. The time counts while the database
 * and the broker are well. A message that kills or hangs relays does not count itself, since it is tried several times,
 * each after a lease: only the messages behind it do.
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
       select p.shard, concat('parked ', p.place, ' attempts ', p.attempts) as what from ${parked} as p
       where p.due_at <= ${clock} and p.dead_at is null and p.id ${notPoison}`,
      [...poison, ...poison],
    )
    if (!this.#isWell) return
    const now = performance.now()
    const seen = new Map<number, Set<string>>()
    for (const row of rows) {
      const what = String(row['what'])
      const place = Number(row['shard']) + (what.startsWith('outbox') ? 0 : SHARDS)
      seen.set(place, (seen.get(place) ?? new Set()).add(what))
    }
    for (const [place, { what, messages, sinceMs }] of this.#heads) {
      const ms = now - sinceMs
      if (ms > this.#longest.ms) this.#longest = { shard: place % SHARDS, ms, what }
      const left = seen.get(place)
      if (![...messages].every((message) => left?.has(message) === true)) this.#heads.delete(place)
    }
    for (const [place, messages] of seen) {
      const [first] = messages
      const what = messages.size === 1 ? first! : `${first!} and ${messages.size - 1} more`
      if (!this.#heads.has(place)) this.#heads.set(place, { what, messages, sinceMs: now })
    }
  }
}
