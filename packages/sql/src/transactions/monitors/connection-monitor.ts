import type {
  Awaitable,
  CheckedSnapshot,
  ConnectionMonitor,
  Snapshot,
  TransactionState,
  TransactionTracker,
} from '../adapters.ts'
import { isOfAborted } from '../aborted-transaction.ts'
import { savepointStatements } from '../savepoint-statements.ts'
import { endsTransaction, type Effect } from './statement-effect.ts'

function isOfSavepoint(effect: Effect): effect is 'sets a savepoint' | 'rolls back to a savepoint' {
  return effect === 'sets a savepoint' || effect === 'rolls back to a savepoint'
}

/**
 * MySQL: the key exists already. This error fails only the statement, never the transaction. It is how txbox detects a
 * duplicate.
 */
const DUPLICATE_KEY = 1062

/**
 * Errors of MySQL and MariaDB that roll back the whole transaction: a deadlock, a row that is newer than the
 * transaction's snapshot, no room for locks. After such an error, many releases of MariaDB (such as 10.6.23, 10.11.7
 * and 11.4.5) behave as if the transaction were still open. The next statement opens another transaction, and neither a
 * savepoint nor the status in an answer nor `@@in_transaction` distinguishes the two.
 */
const ROLLED_BACK: ReadonlySet<unknown> = new Set([1213, 1020, 1206])
const LOCK_WAIT_TIMEOUT = 1205

/** MySQL and MariaDB number their errors, few of which end the transaction; on PostgreSQL, every error aborts it. */
function mayAbort(error: unknown, errno: unknown): boolean {
  if (typeof errno === 'number') return ROLLED_BACK.has(errno) || errno === LOCK_WAIT_TIMEOUT
  return !isOfAborted(error)
}

class ConnectionSnapshot implements Snapshot {
  readonly #connection: MonitoredConnection
  readonly #doubts: number
  readonly #ends: number
  readonly #begins: number
  readonly #rollbacks: number
  readonly #undone: number
  readonly #commits: number

  constructor(connection: MonitoredConnection) {
    this.#connection = connection
    this.#doubts = connection.doubts
    this.#ends = connection.ends
    this.#begins = connection.begins
    this.#rollbacks = connection.rollbacks
    this.#undone = connection.tracker.rollbacks
    this.#commits = connection.commits
  }

  get doubtful(): boolean {
    return this.#connection.doubts !== this.#doubts || this.#connection.isBusy
  }

  get ended(): boolean {
    return this.#connection.ends !== this.#ends
  }

  get replaced(): boolean {
    return this.ended || this.#connection.begins !== this.#begins
  }

  get rolledBack(): boolean {
    return this.#connection.rollbacks !== this.#rollbacks
  }

  get undone(): boolean {
    return this.#connection.tracker.rollbacks !== this.#undone
  }

  get mayHaveCommitted(): boolean {
    return this.#connection.commits !== this.#commits
  }
}

/**
 * Numbers the savepoints of all connections together: several monitors may follow the same connection without txbox
 * noticing.
 */
let lastSavepoint = 0

/** A savepoint of txbox. It exists until the transaction ends, or is rolled back to an earlier savepoint. */
interface Savepoint {
  readonly name: string
  /** The server's answer to the release of the savepoint. */
  isIntact: Promise<boolean> | undefined
}

class CheckedConnectionSnapshot extends ConnectionSnapshot implements CheckedSnapshot {
  readonly #connection: MonitoredConnection
  readonly savepoints: Savepoint[] = []

  constructor(connection: MonitoredConnection) {
    super(connection)
    this.#connection = connection
  }

  isIntact(): Awaitable<boolean> {
    return this.savepoints.length === 0 || this.#askServer()
  }

  async #askServer(): Promise<boolean> {
    this.#connection.releaseSavepoints(this)
    const answers = this.savepoints.map(({ isIntact }) => isIntact)
    // From now on the connection sets no further savepoints for this snapshot.
    this.end()
    for (const isIntact of answers) {
      if ((await isIntact) !== true) return false
    }
    return true
  }

  end(): void {
    this.#connection.endSnapshot(this)
  }
}

/**
 * Sends a statement of txbox on the connection at once, so that the server executes it before all statements that are
 * sent later.
 */
export type Send = (sql: string) => Promise<unknown>

/**
 * Returns the state of a connection's transaction as its statements show it: `'none'` from the moment at which a COMMIT
 * or ROLLBACK is sent.
 */
export function stateOfTracker(monitor: MonitoredConnection | undefined): TransactionState {
  return monitor?.tracker.ended === true ? 'none' : 'open'
}

/** Follows a connection from the moment at which txbox first uses it. The driver reports every statement. */
export class MonitoredConnection implements ConnectionMonitor {
  readonly tracker: { -readonly [K in keyof TransactionTracker]: TransactionTracker[K] } = {
    changes: 0,
    rollbacks: 0,
    open: false,
    ended: false,
    rolledBack: 'no',
  }
  /** How often the state of the transaction was in doubt, a transaction ended, and a transaction began. */
  doubts = 0
  ends = 0
  begins = 0
  /** How often the transaction was rolled back to a savepoint. */
  rollbacks = 0
  /** How often something may have been committed. */
  commits = 0
  abortedBy: unknown
  #inFlight = 0
  readonly #send: Send
  readonly #snapshots = new Set<CheckedConnectionSnapshot>()
  #savepoints: Savepoint[] = []
  #endListener: ((isCommitted: boolean) => void) | undefined

  constructor(send: Send) {
    this.#send = send
  }

  get isBusy(): boolean {
    return this.#inFlight > 0
  }

  onceEnded(listener: (isCommitted: boolean) => void): void {
    this.#endListener = listener
  }

  /** Must be called before the statement is sent. */
  sent(effect: Effect): void {
    this.#inFlight++
    if (effect === 'none') return
    if (effect !== 'begins' && !endsTransaction(effect)) {
      this.#setSavepoint([...this.#snapshots].filter(({ savepoints }) => savepoints.length === 0))
    }
    if (effect === 'rolls back to a savepoint') this.rollbacks++
    if (isOfSavepoint(effect)) return
    if (effect !== 'unknown') {
      this.tracker.ended = endsTransaction(effect)
      this.tracker.changes++
      if (effect === 'rolls back') this.tracker.rollbacks++
    }
    this.#doubt()
  }

  /** Must be called when the server has answered the statement. */
  succeeded(effect: Effect): void {
    this.#inFlight--
    // After a ROLLBACK, a statement commits by itself.
    if (effect === 'none' && this.tracker.ended) this.commits++
    if (effect === 'rolls back to a savepoint') this.abortedBy = undefined
    if (effect === 'none' || isOfSavepoint(effect)) return
    if (effect !== 'rolls back' && !(effect === 'commits' && this.tracker.rolledBack === 'yes'))
      this.commits++
    if (effect !== 'unknown') this.abortedBy = undefined
    if (effect === 'begins') this.tracker.open = true
    // The server answers a COMMIT with success even if an error has rolled the transaction back.
    const isCommitted = effect === 'commits' && this.tracker.rolledBack !== 'yes'
    if (effect !== 'unknown') this.tracker.rolledBack = 'no'
    if (endsTransaction(effect)) {
      this.ends++
      const listener = this.#endListener
      this.#endListener = undefined
      listener?.(isCommitted)
    } else if (effect !== 'unknown') this.begins++
  }

  failed(error: unknown, ours: boolean): void {
    this.#inFlight--
    const errno: unknown =
      typeof error === 'object' && error !== null ? Reflect.get(error, 'errno') : undefined
    if (ROLLED_BACK.has(errno)) {
      this.tracker.rolledBack = 'yes'
      this.ends++
    } else if (errno === LOCK_WAIT_TIMEOUT && this.tracker.rolledBack === 'no') {
      this.tracker.rolledBack = 'perhaps'
    }
    if (mayAbort(error, errno)) this.abortedBy = error
    if (!ours || errno !== DUPLICATE_KEY) this.#doubt()
  }

  snapshot(): Snapshot {
    return new ConnectionSnapshot(this)
  }

  checkedSnapshot(): CheckedSnapshot {
    const snapshot = new CheckedConnectionSnapshot(this)
    this.#snapshots.add(snapshot)
    return snapshot
  }

  endSnapshot(snapshot: CheckedConnectionSnapshot): void {
    this.#snapshots.delete(snapshot)
    if (this.#savepoints.length === 0) return
    this.#savepoints = this.#savepoints.filter((savepoint) =>
      [...this.#snapshots].some(({ savepoints }) => savepoints.includes(savepoint)),
    )
  }

  /**
   * Releases all savepoints, the newest first, because a release also removes all later savepoints. The other snapshots
   * get a new savepoint.
   */
  releaseSavepoints(asking: CheckedConnectionSnapshot): void {
    const oldest = this.#savepoints.findIndex((savepoint) => asking.savepoints.includes(savepoint))
    const released = oldest === -1 ? [] : this.#savepoints.splice(oldest)
    for (const savepoint of released.toReversed()) {
      savepoint.isIntact = this.#send(savepointStatements.release(savepoint.name)).then(
        () => true,
        () => false,
      )
    }
    this.#setSavepoint(
      [...this.#snapshots].filter(
        (snapshot) => snapshot !== asking && snapshot.savepoints.some((each) => released.includes(each)),
      ),
    )
  }

  async sendTogether(statements: readonly string[]): Promise<void> {
    await Promise.all(statements.map((sql) => this.#send(sql)))
  }

  /**
   * Neither the answers of MySQL and MariaDB nor the SQL show whether a transaction ended and another one began, or
   * whether there was a rollback to an earlier savepoint. Therefore txbox sets a savepoint before the first statement
   * that may do one of these, or that may set a savepoint. If the savepoint of txbox still exists at the end, nothing
   * of the kind has happened.
   */
  #setSavepoint(snapshots: readonly CheckedConnectionSnapshot[]): void {
    if (snapshots.length === 0) return
    const savepoint: Savepoint = { name: `txbox_mark_${++lastSavepoint}`, isIntact: undefined }
    // A savepoint that cannot be set cannot be released either.
    this.#send(savepointStatements.set(savepoint.name)).catch(() => undefined)
    this.#savepoints.push(savepoint)
    for (const snapshot of snapshots) snapshot.savepoints.push(savepoint)
  }

  #doubt(): void {
    this.tracker.open = false
    this.doubts++
  }
}
