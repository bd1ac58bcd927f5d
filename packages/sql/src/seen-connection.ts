import type { Guard, Observation, Seen, Track, TransactionState } from './handle-adapter.ts'

/** What a statement does to the transaction that it runs in, as far as its text tells. */
export type Effect =
  | 'begins'
  | 'begins, and more'
  | 'ends'
  | 'sets a savepoint'
  | 'rolls back to a savepoint'
  | 'none'
  | 'unknown'

/** What may stand before the first word: comments too, of which MySQL carries out those that begin with an exclamation mark. */
const LEADING = String.raw`^(?:[\s(]|/\*M?!\d*|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/|--[^\n]*\n|#[^\n]*\n)*`
const ROLLBACK_TO = String.raw`rollback\s+(?:work\s+|transaction\s+)?to`

/** Statements that never end a transaction by succeeding. Of any other, on MySQL of every DDL, that is to be asked. */
const HARMLESS = startsWith(
  `select|insert|update|delete|replace|with|values|release|(?<savepoint>savepoint)|(?<rollback>${ROLLBACK_TO})`,
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
  const harmless = HARMLESS.exec(sql)
  if (harmless !== null) {
    if (several && SEVERAL.test(sql)) return 'unknown'
    if (harmless.groups?.['savepoint'] !== undefined) return 'sets a savepoint'
    return harmless.groups?.['rollback'] === undefined ? 'none' : 'rolls back to a savepoint'
  }
  if (BEGINS.test(sql)) return several && SEVERAL.test(sql) ? 'begins, and more' : 'begins'
  return ENDS.test(sql) ? 'ends' : 'unknown'
}

function isOfSavepoint(effect: Effect): effect is 'sets a savepoint' | 'rolls back to a savepoint' {
  return effect === 'sets a savepoint' || effect === 'rolls back to a savepoint'
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
  readonly #rollbacks: number

  constructor(connection: SeenConnection) {
    this.#connection = connection
    this.#doubts = connection.doubts
    this.#ends = connection.ends
    this.#begins = connection.begins
    this.#rollbacks = connection.rollbacks
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

  get rolledBack(): boolean {
    return this.#connection.rollbacks !== this.#rollbacks
  }
}

/** A savepoint of txbox. It exists until the transaction ends, or is rolled back to an earlier savepoint. */
interface Mark {
  readonly name: string
  /** The server's answer to the release of the savepoint. */
  isIntact: Promise<boolean> | undefined
}

class Guarded extends SinceThen implements Guard {
  readonly #connection: SeenConnection
  readonly marks: Mark[] = []

  constructor(connection: SeenConnection) {
    super(connection)
    this.#connection = connection
  }

  async isIntact(): Promise<boolean> {
    if (this.marks.length === 0) return true
    this.#connection.releaseMarks(this)
    const answers = this.marks.map(({ isIntact }) => isIntact)
    // From now on the connection gets no further marks.
    this.end()
    for (const isIntact of answers) {
      if ((await isIntact) !== true) return false
    }
    return true
  }

  end(): void {
    this.#connection.endGuard(this)
  }
}

/** Sends a statement of txbox on the connection at once: statements that are sent later are executed later. */
export type Send = (sql: string) => Promise<unknown>

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
  /** How often the transaction was rolled back to a savepoint. */
  rollbacks = 0
  /** Statements that the server has not answered yet. */
  #underWay = 0
  readonly #send: Send
  readonly #guards = new Set<Guarded>()
  #marks: Mark[] = []
  #lastMark = 0

  constructor(send: Send) {
    this.#send = send
  }

  get isBusy(): boolean {
    return this.#underWay > 0
  }

  /** Must be called before the statement is sent. */
  sent(effect: Effect): void {
    this.#underWay++
    if (effect === 'none') return
    if (effect !== 'begins' && effect !== 'ends') {
      this.#mark([...this.#guards].filter(({ marks }) => marks.length === 0))
    }
    if (effect === 'rolls back to a savepoint') this.rollbacks++
    if (isOfSavepoint(effect)) return
    if (effect !== 'unknown') this.track.ended = effect === 'ends'
    this.#doubt()
  }

  /** The server has answered what was sent. */
  succeeded(effect: Effect): void {
    this.#underWay--
    if (effect === 'none' || isOfSavepoint(effect)) return
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

  guard(): Guard {
    const guard = new Guarded(this)
    this.#guards.add(guard)
    return guard
  }

  endGuard(guard: Guarded): void {
    this.#guards.delete(guard)
    this.#marks = this.#marks.filter((mark) => [...this.#guards].some(({ marks }) => marks.includes(mark)))
  }

  /** Releases all marks, the newest first, since a release takes the later ones with it. Other guards get a new mark. */
  releaseMarks(asking: Guarded): void {
    for (const mark of this.#marks.toReversed()) {
      mark.isIntact = this.#send(`RELEASE SAVEPOINT ${mark.name}`).then(
        () => true,
        () => false,
      )
    }
    this.#marks = []
    this.#mark([...this.#guards].filter((guard) => guard !== asking && guard.marks.length > 0))
  }

  async sendTogether(statements: readonly string[]): Promise<void> {
    await Promise.all(statements.map((sql) => this.#send(sql)))
  }

  /**
   * Neither the answers of MySQL and MariaDB nor the SQL show whether a transaction was ended and another one begun, or
   * whether there was a rollback to an earlier savepoint. So txbox sets a savepoint before the first statement that may do
   * so, or may set a savepoint: at the end the savepoint exists only if nothing of the kind has happened.
   */
  #mark(guards: readonly Guarded[]): void {
    if (guards.length === 0) return
    const mark: Mark = { name: `txbox_mark_${++this.#lastMark}`, isIntact: undefined }
    // A savepoint that cannot be set cannot be released either.
    this.#send(`SAVEPOINT ${mark.name}`).catch(() => undefined)
    this.#marks.push(mark)
    for (const guard of guards) guard.marks.push(mark)
  }

  #doubt(): void {
    this.track.open = false
    this.doubts++
  }
}
