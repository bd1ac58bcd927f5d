import type { Session } from './session.ts'

/** One chain of changes: the messages of one key, as one consumer applies them. */
export interface VersionChain {
  readonly consumer: string
  readonly key: string
}

export interface ChainPosition {
  /** The version that the chain has reached: 64 bits, signed. */
  readonly version: bigint
  /** The number of waiting messages, without dead letters. */
  readonly waiting: number
}

/**
 * A change to the state of a chain. The fields are differences, so that a step does not overwrite what another step
 * wrote.
 */
interface ChainStep {
  readonly from: bigint
  readonly to: bigint
  /** The change in the number of waiting messages; negative if fewer messages wait. */
  readonly waiting: number
}

/** A message that waits for its predecessor. */
export interface WaitingChange {
  readonly from: bigint
  readonly to: bigint
  /** The JavaScript type of the versions in the program: see `Version` in the versioning package. */
  readonly kind: string
  /** JSON. */
  readonly payload: string
}

export interface DeadChange extends WaitingChange {
  readonly key: string
  readonly reason: string
  readonly receivedAt: Date
  readonly deadAt: Date
}

/** A transaction in which several calls work on chains, one after the other. */
export interface SharedTransaction {
  /** An object that represents the connection: the same object for every handle on that connection. */
  readonly connection: object
  /** Returns whether the transaction has ended, even if another one is open on the connection by now. */
  hasEnded(): boolean
}

/**
 * The tables of the version buffer. All work on a chain is done under the lock of the chain. At any isolation level,
 * the holder of the lock sees everything that earlier holders committed, or gets a `TransactionConflictError`. So no
 * transaction stores a message as waiting while another one applies its predecessor.
 *
 * Outside a transaction, methods that write throw `NotInTransactionError`, and nothing is written.
 */
export interface VersionBufferStore {
  /** Returns the transaction of a session. Sends nothing to the server. */
  transactionOf(session: Session): Promise<SharedTransaction>
  /** Locks the chain until the end of the transaction. A new chain begins at `initial`. */
  lock(session: Session, chain: VersionChain, initial: bigint): Promise<ChainPosition>
  /**
   * Records a step of the chain.
   *
   * @returns `false`, with nothing written, if the chain is not at `step.from`: other code moved the chain in this
   *   transaction.
   */
  move(session: Session, chain: VersionChain, step: ChainStep): Promise<boolean>
  /**
   * Stores a message, unless there is a waiting message or a dead letter with the same `from` version.
   *
   * @returns that existing message, or `undefined` if the new one was stored.
   */
  store(
    session: Session,
    chain: VersionChain,
    change: WaitingChange,
  ): Promise<{ readonly to: bigint; readonly dead: boolean } | undefined>
  /** Returns the first or the last waiting messages, by version. */
  waiting(
    session: Session,
    chain: VersionChain,
    options: { readonly order: 'first' | 'last'; readonly limit: number },
  ): Promise<readonly WaitingChange[]>
  /** Returns the messages that have waited longer than `ageMs`, by version. */
  overdue(session: Session, chain: VersionChain, ageMs: number): Promise<readonly WaitingChange[]>
  /** Turns the waiting messages with these `from` versions into dead letters. */
  bury(session: Session, chain: VersionChain, from: readonly bigint[], reason: string): Promise<void>
  /**
   * Removes the messages with these `from` versions: dead letters if `dead` is true, otherwise waiting messages.
   *
   * @returns the number of messages that were removed.
   */
  remove(
    session: Session,
    chain: VersionChain,
    from: readonly bigint[],
    options: { readonly dead: boolean },
  ): Promise<number>
  /** Returns the keys that have a message that has waited longer than `ageMs`. Takes no lock. */
  overdueKeys(session: Session, consumer: string, ageMs: number, limit: number): Promise<readonly string[]>
  /** Returns dead letters after a position, ordered by key and version. Takes no lock. */
  dead(
    session: Session,
    filter: {
      readonly consumer: string
      readonly key: string | undefined
      readonly after: { readonly key: string; readonly from: bigint } | undefined
      readonly limit: number
    },
  ): Promise<readonly DeadChange[]>
}
