import type { Observation, Seen, Track, TransactionState } from './handle-adapter.ts'

/** What a statement does to the transaction that it runs in, as far as its text tells. */
export type Effect = 'begins' | 'begins, and more' | 'ends' | 'none' | 'unknown'

/** What may stand before the first word: comments too, of which MySQL carries out those that begin with an exclamation mark. */
const LEADING = String.raw`^(?:[\s(]|/\*M?!\d*|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/|--[^\n]*\n|#[^\n]*\n)*`
const ROLLBACK_TO = String.raw`rollback\s+(?:work\s+|transaction\s+)?to`

/** Statements that never end a transaction by succeeding. Of any other, on MySQL of every DDL, that is to be asked. */
const HARMLESS = startsWith(
  `select|insert|update|delete|replace|with|values|savepoint|release|${ROLLBACK_TO}`,
)
const BEGINS = startsWith(String.raw`begin|start\s+transaction`)
/** Rolling back to a savepoint does not end it. */
const ENDS = startsWith(String.raw`commit|end|abort|prepare\s+transaction|(?!${ROLLBACK_TO})rollback`)
/** Several statements in one text; or a semicolon in a value, which is no harm to take for that. */
const SEVERAL = /;\s*\S/

function startsWith(words: string): RegExp {
  return new RegExp(String.raw`${LEADING}(?:${words})\b`, 'i')
}

/** As the drivers write them: no search is needed for two statements of every transaction. */
const KNOWN: ReadonlyMap<string, Effect> = new Map([
  ...['START TRANSACTION', 'BEGIN', 'begin'].map((sql): [string, Effect] => [sql, 'begins']),
  ...['COMMIT', 'ROLLBACK', 'commit', 'rollback'].map((sql): [string, Effect] => [sql, 'ends']),
])
const KNOWN_LENGTH = Math.max(...[...KNOWN.keys()].map((sql) => sql.length))

/** @param several the connection would run several statements of one text. */
export function effectOf(sql: string, several: boolean): Effect {
  const known = sql.length <= KNOWN_LENGTH ? KNOWN.get(sql) : undefined
  if (known !== undefined) return known
  if (HARMLESS.test(sql)) return several && SEVERAL.test(sql) ? 'unknown' : 'none'
  if (BEGINS.test(sql)) return several && SEVERAL.test(sql) ? 'begins, and more' : 'begins'
  return ENDS.test(sql) ? 'ends' : 'unknown'
}

/** MySQL: a key that is there already. It fails the statement, never the transaction, and is how a duplicate is told. */
const DUPLICATE_KEY = 1062

/**
 * MySQL, MariaDB: a deadlock; a row that is newer than the snapshot; no room for locks. Each rolls the whole transaction
 * back. Many releases of MariaDB (as 10.6.23, 10.11.7 and 11.4.5) go on as if in the transaction: the next statement
 * opens another one, and neither a savepoint nor the status in an answer nor `@@in_transaction` can tell them apart.
 */
const ROLLED_BACK: ReadonlySet<unknown> = new Set([1213, 1020, 1206])
const LOCK_WAIT_TIMEOUT = 1205

class SinceThen implements Observation {
  readonly #connection: SeenConnection
  readonly #doubts: number
  readonly #ends: number
  readonly #begins: number

  constructor(connection: SeenConnection) {
    this.#connection = connection
    this.#doubts = connection.doubts
    this.#ends = connection.ends
    this.#begins = connection.begins
  }

  get doubtful(): boolean {
    return this.#connection.doubts !== this.#doubts || this.#connection.isBusy
  }

  get ended(): boolean {
    return this.#connection.ends !== this.#ends
  }

  get replaced(): boolean {
    return this.#connection.begins !== this.#begins
  }
}

/**
 * The state of a connection's transaction as far as its statements tell: `'none'` from the moment in which a COMMIT or
 * ROLLBACK is sent.
 */
export function stateOfTrack(seen: SeenConnection | undefined): TransactionState {
  return seen?.track.ended === true ? 'none' : 'open'
}

/** What we have seen of a connection since we first met it: it is told of every statement. */
export class SeenConnection implements Seen {
  readonly track: { -readonly [K in keyof Track]: Track[K] } = { open: false, ended: false, rolledBack: 'no' }
  /** How often the transaction's state became open to doubt, how often one ended, how often one began. */
  doubts = 0
  ends = 0
  begins = 0
  /** Statements that the server has not answered yet. */
  #underWay = 0

  get isBusy(): boolean {
    return this.#underWay > 0
  }

  sent(effect: Effect): void {
    this.#underWay++
    if (effect === 'none') return
    if (effect !== 'unknown') this.track.ended = effect === 'ends'
    this.#doubt()
  }

  /** The server has answered what was sent. */
  succeeded(effect: Effect): void {
    this.#underWay--
    if (effect === 'none') return
    if (effect === 'begins') this.track.open = true
    if (effect !== 'unknown') this.track.rolledBack = 'no'
    if (effect === 'ends') this.ends++
    else if (effect !== 'unknown') this.begins++
  }

  failed(error: unknown, ours: boolean): void {
    this.#underWay--
    const errno: unknown =
      typeof error === 'object' && error !== null ? Reflect.get(error, 'errno') : undefined
    if (ROLLED_BACK.has(errno)) {
      this.track.rolledBack = 'yes'
      this.ends++
    } else if (errno === LOCK_WAIT_TIMEOUT && this.track.rolledBack === 'no') {
      this.track.rolledBack = 'perhaps'
    }
    if (!ours || errno !== DUPLICATE_KEY) this.#doubt()
  }

  observe(): Observation {
    return new SinceThen(this)
  }

  #doubt(): void {
    this.track.open = false
    this.doubts++
  }
}
