import { setTimeout as pause } from 'node:timers/promises'
import { SHARDS } from '@txbox/core/internal'
import { connectDirectly, type DirectConnection } from '../database/direct-connection.ts'
import { readStuckKeys, type StuckKey } from '../check/queue-history.ts'
import { txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'
import type { HttpWaits } from './http-waits.ts'
import { LOCAL_KINDS, localHeads } from './local-heads.ts'
import type { Standstill } from './standstill.ts'

const LOOK_INTERVAL_MS = 300
const KINDS: readonly string[] = ['outbox', 'parked', 'queue', ...LOCAL_KINDS]

/**
 * The messages of a shard that are next: the first message of the outbox, all parked messages that are due, or all visible
 * messages of the queue. The time is counted from the moment since which none of these messages has moved while the database and the broker were well.
 */
interface Head {
  readonly what: string
  readonly messages: ReadonlySet<string>
  readonly sinceMs: number
}

/**
 * Looks at the next messages of each shard, past all faults, several times a second. A shard has stood still if the first
 * message of its outbox stays the same, or if not one of its parked messages that are due has been tried: those are taken
 * by the time since which they are due, and suspects one at a time in a whole process. A shard of the queue has stood still
 * if not one of its visible messages was received. The time counts while the database
 * and the broker are well. A message that kills or hangs relays does not count itself, since it is tried several times,
 * each after a lease: only the messages behind it do. Nor do messages of the queue that were made to fail. `localHeads` describes
 * what counts at local consumers, and `HttpWaits` what counts of HTTP requests.
 */
export class StandstillWatch {
  readonly #engine: Engine
  readonly #url: () => string
  readonly #poison: ReadonlySet<string>
  readonly #http: HttpWaits
  readonly #heads = new Map<number, Head>()
  readonly #stuckKeys = new Map<string, StuckKey>()
  #isWell = true
  #isClosed = false
  #longest: Pick<Standstill, 'ms' | 'what'> = { ms: 0, what: '' }
  #loop: Promise<void> = Promise.resolve()

  /** @param poison the ids of the messages that kill or hang relays. */
  constructor(engine: Engine, url: () => string, poison: ReadonlySet<string>, http: HttpWaits) {
    this.#engine = engine
    this.#url = url
    this.#poison = poison
    this.#http = http
  }

  start(): void {
    this.#loop = this.#watch()
  }

  /** The keys of the queue at which no receiver would have looked, each once, in the order in which they were found. */
  get stuckKeys(): readonly StuckKey[] {
    return [...this.#stuckKeys.values()]
  }

  /** While the database or the broker is broken, no time counts; afterwards all clocks begin again. */
  set isWell(isWell: boolean) {
    this.#isWell = isWell
    if (!isWell) this.#clear()
  }

  get longest(): Pick<Standstill, 'ms' | 'what'> {
    return this.#longest
  }

  /** How long each shard with messages has stood still, and each HTTP request has waited: the longest time first. */
  standing(): readonly Standstill[] {
    const now = performance.now()
    const shards = [...this.#heads].map(([place, { what, sinceMs }]) => {
      const ms = now - sinceMs
      const text = `Shard ${place % SHARDS} has stood still for ${Math.round(ms)} ms at: ${what}.`
      return { check: 'standstill' as const, ms, what, text }
    })
    return [...shards, ...this.#http.standing()].toSorted((a, b) => b.ms - a.ms)
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
        // The database is unavailable: the fault that caused this declares it, and no time counts.
        this.#clear()
        await connection?.close()
        connection = undefined
      }
      await pause(LOOK_INTERVAL_MS)
    }
    await connection?.close()
  }

  #clear(): void {
    this.#heads.clear()
    this.#http.clear()
  }

  async #look(connection: DirectConnection): Promise<void> {
    const { outbox, parked, queue } = txboxTables(this.#engine)
    const [clock, epoch, id] =
      this.#engine === 'postgres'
        ? ['clock_timestamp()', `timestamptz 'epoch'`, 'q.id']
        : ['utc_timestamp(6)', `'1970-01-01'`, 'convert(q.id using utf8mb4)']
    const poison = ['none', ...this.#poison]
    const notPoison = `not in (${poison.map(() => '?').join(', ')})`
    // A message that is blocked goes only behind the parked ones of its key, which are watched for themselves.
    const rows = await connection.query(
      `select o.shard, concat('outbox ', min(o.seq)) as what from ${outbox} as o
       where o.id ${notPoison} group by o.shard
       union all
       select p.shard, concat('parked ', p.place, ' attempts ', p.attempts) as what from ${parked} as p
       where p.due_at <= ${clock} and p.dead_at is null and p.id ${notPoison}
       union all
       select q.shard, concat('queue ', q.place, ' receives ', q.attempts) from ${queue} as q
       where q.due_at <= ${clock} and q.due_at > ${epoch}
         and not exists (select 1 from chaos_queued as c where c.message_id = ${id} and c.ill is not null)`,
      [...poison, ...poison],
    )
    // No fault excuses such a key, and the next message of the key ends the standstill.
    for (const stuck of await readStuckKeys(this.#engine, connection)) {
      if (!this.#stuckKeys.has(stuck.key)) this.#stuckKeys.set(stuck.key, stuck)
    }
    const local = await localHeads(this.#engine, connection)
    if (!this.#isWell) return
    const now = performance.now()
    const seen = new Map<number, Set<string>>()
    for (const row of [...rows, ...local]) {
      const what = String(row['what'])
      const place = Number(row['shard']) + SHARDS * KINDS.findIndex((kind) => what.startsWith(kind))
      seen.set(place, (seen.get(place) ?? new Set()).add(what))
    }
    const [longest] = this.standing()
    if (longest !== undefined && longest.ms > this.#longest.ms) this.#longest = longest
    this.#http.look()
    for (const [place, { messages }] of this.#heads) {
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
