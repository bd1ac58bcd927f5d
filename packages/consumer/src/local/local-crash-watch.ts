import { LeaseLostError } from '@txbox/core'
import type { LocalRow, LocalShard, LocalStore } from '@txbox/core/ports'
import { rowId } from './key-lane.ts'
import type { LocalHeldShard } from './local-membership.ts'

/**
 * The number of deaths in a row after which messages become suspects. The first death may have any cause and costs only the lease.
 */
const SUSPICIOUS_CRASHES = 2
/** How many of the first messages of a shard the dead owner may have had in its window. */
const WATCHED_MESSAGES = 1000

/** The messages in flight of each table, as pairs of number and stamp. */
type Noted = Readonly<Partial<Record<LocalRow['in'], readonly (readonly [seq: string, stamp: string])[]>>>

/**
 * Finds a message that crashes its processes. After a first crash, the next owner of a shard handles its messages as before, but
 * notes in the lease which messages it has in flight, until every message that the dead owner may have had in flight is settled. If
 * the next owner dies as well, the noted messages become suspects, which the third owner tries one at a time.
 *
 * Without a crash, nothing is noted.
 */
export class LocalCrashWatch {
  readonly #held: LocalHeldShard
  readonly #at: LocalShard
  readonly #store: LocalStore
  readonly #reported: (error: unknown) => void
  /** Noted messages that are not suspects yet, because another transaction has locked them. */
  #noted: readonly LocalRow[] = []
  #isActive: boolean
  #hasBegun = false
  #hasSuspects: boolean
  #hasTriedParked = false
  #read = 0
  #horizon: bigint | undefined

  /** @param reported is called with an error that needs no other reaction. */
  constructor(held: LocalHeldShard, store: LocalStore, reported: (error: unknown) => void) {
    this.#reported = reported
    this.#held = held
    this.#at = { consumer: held.consumer, shard: held.shard }
    this.#store = store
    this.#isActive = held.crashes > 0
    this.#hasSuspects = held.crashes >= SUSPICIOUS_CRASHES
  }

  /** Whether messages must be noted before they are handed out. */
  get isActive(): boolean {
    return this.#isActive
  }

  /** Whether messages may be handed out. */
  get hasBegun(): boolean {
    return this.#hasBegun || !this.#isActive
  }

  /** Whether suspects may be left. */
  get hasSuspects(): boolean {
    return this.#hasSuspects
  }

  /** Must be called when a suspect was looked for, or may have become due. */
  sawSuspect(isThere: boolean): void {
    this.#hasSuspects = isThere
  }

  /** Marks the suspects, once. Must be called before the first message of the shard is handed out. */
  async begin(): Promise<void> {
    if (this.hasBegun) return
    const { lease, crashes } = this.#held
    if (crashes >= SUSPICIOUS_CRASHES) this.#noted = this.#suspectsOf(lease.inFlight)
    await this.suspectLeft()
    // The note stays until all of its messages are suspects: if this owner dies as well, the next one reads it.
    if (lease.inFlight !== undefined && this.#noted.length === 0) await this.#write(undefined)
    this.#hasBegun = true
  }

  /** Whether noted messages are not suspects yet. */
  get hasNoted(): boolean {
    return this.#noted.length > 0
  }

  /** Marks the suspects that were locked. A message that no longer exists is none. */
  async suspectLeft(): Promise<void> {
    if (!this.hasNoted) return
    this.#noted = await this.#store.suspect(this.#held.lease, this.#at, this.#noted)
  }

  /** Whether the message must not be handed out, because it is about to become a suspect. */
  isNoted(row: LocalRow): boolean {
    return this.#noted.length > 0 && this.#noted.some((noted) => rowId(noted) === rowId(row))
  }

  /** Notes all messages in flight, those included that are about to be handed out. */
  note(inFlight: readonly LocalRow[]): Promise<void> {
    return this.#write(JSON.stringify(notedOf([...this.#noted, ...inFlight])))
  }

  /** Must be called with each read of the waiting messages: the first ones are those that the dead owner may have had in flight. */
  sawWaiting(messages: readonly LocalRow[]): void {
    if (!this.#isActive || this.#read >= WATCHED_MESSAGES) return
    this.#read += messages.length
    const last = messages.at(-1)?.seq
    if (last !== undefined && (this.#horizon === undefined || last > this.#horizon)) this.#horizon = last
  }

  /** Must be called when the parked messages that were due have been tried, or there were none. */
  triedParked(): void {
    this.#hasTriedParked = true
  }

  /**
   * Ends the watch when all messages that the dead owner may have had in flight are settled.
   *
   * @param isPast tells whether all messages up to a number are settled.
   */
  async end(isPast: (seq: bigint) => boolean): Promise<void> {
    if (!this.#isActive || !this.#hasBegun || this.#hasSuspects || this.hasNoted) return
    if (!this.#hasTriedParked || !isPast(this.#horizon ?? 0n)) return
    await this.#store.survived(this.#held.lease)
    this.#isActive = false
  }

  /** An unreadable note, which was written by hand or by another version, counts as a note without suspects. */
  #suspectsOf(note: string | undefined): readonly LocalRow[] {
    try {
      return parse(note)
    } catch (cause) {
      const { name } = this.#held.lease
      const text = `The note about messages in flight in the lease '${name}' cannot be read, so a message that kills its process is not recognized this time.`
      this.#reported(new Error(text, { cause }))
      return []
    }
  }

  async #write(noted: string | undefined): Promise<void> {
    const { lease } = this.#held
    if (await this.#store.note(lease, noted)) return
    throw new LeaseLostError(
      `The lease '${lease.name}' of term ${lease.term} is no longer held by '${lease.owner}'. No further message was handled.`,
    )
  }
}

function notedOf(rows: readonly LocalRow[]): Noted {
  const of = (table: LocalRow['in']): readonly (readonly [string, string])[] =>
    rows.filter((row) => row.in === table).map(({ seq, stamp }) => [String(seq), String(stamp)])
  return { waiting: of('waiting'), parked: of('parked') }
}

/** @throws when the note cannot be read. */
function parse(text = '{}'): readonly LocalRow[] {
  const noted = JSON.parse(text) as Noted
  return (['waiting', 'parked'] as const).flatMap((table) =>
    (noted[table] ?? []).map(([seq, stamp]) => ({ in: table, seq: BigInt(seq), stamp: Number(stamp) })),
  )
}
