import type { Session } from './session.ts'

/** One chain of changes: the messages of one key, as one consumer applies them. */
export interface VersionChain {
  readonly consumer: string
  readonly key: string
}

/** How far a chain has come. */
export interface ChainPosition {
  /** 64 bits, signed. */
  readonly version: bigint
  /** How many of its messages wait; dead letters do not count. */
  readonly waiting: number
}

/** How a chain moves on: expressed as changes, so that no step reverts what another step has written. */
export interface ChainStep {
  readonly from: bigint
  readonly to: bigint
  /** How many more messages wait; a negative number: how many fewer. */
  readonly waiting: number
}

/** A message that waits for the one before it. */
export interface WaitingChange {
  readonly from: bigint
  readonly to: bigint
  /** What its versions were in the program: see `Version` of the feature. */
  readonly kind: string
  /** JSON. */
  readonly payload: string
}

/** One that was given up. */
export interface DeadChange extends WaitingChange {
  readonly key: string
  readonly reason: string
  readonly receivedAt: Date
  readonly deadAt: Date
}

/**
 * The tables of the version buffer. All work on a chain is done under its lock: whoever has it sees what all others
 * before him have committed, at any isolation level, or is told `TransactionConflictError`. So no message is stored
 * behind the back of somebody who has just applied its predecessor.
 *
 * Nothing is written outside a transaction: `NotInTransactionError`.
 */
export interface VersionBufferStore {
  /**
   * The object that stands for the connection of a caller's handle: the same one for every handle on that connection.
   * Sends nothing to the server, and does not say whether a transaction is open.
   *
   * @throws {UnsupportedTransactionError} when the handle belongs to no known library.
   * @throws {NotInTransactionError} when the library says that the transaction has ended.
   */
  connectionOf(handle: unknown): Promise<object>
  /** Locks the chain up to the end of the transaction. One that is new begins at `initial`. */
  lock(session: Session, chain: VersionChain, initial: bigint): Promise<ChainPosition>
  /**
   * Records how far the chain has come.
   *
   * @returns `false`, with nothing written, when the chain is not at `step.from`: other code moved the chain in this
   *   transaction.
   */
  move(session: Session, chain: VersionChain, step: ChainStep): Promise<boolean>
  /** Stores a message unless one that leads from the same version is there, waiting or dead. → that one */
  store(
    session: Session,
    chain: VersionChain,
    change: WaitingChange,
  ): Promise<{ readonly to: bigint; readonly dead: boolean } | undefined>
  /** Those that wait, by version: the first ones, or the last. */
  waiting(
    session: Session,
    chain: VersionChain,
    options: { readonly order: 'first' | 'last'; readonly limit: number },
  ): Promise<readonly WaitingChange[]>
  /** Those that have waited longer than this, by version. */
  overdue(session: Session, chain: VersionChain, ageMs: number): Promise<readonly WaitingChange[]>
  /** Makes dead letters of those that lead from these versions. */
  bury(session: Session, chain: VersionChain, from: readonly bigint[], reason: string): Promise<void>
  /** Removes those that lead from these versions: dead letters, or such that wait. → how many there were */
  remove(
    session: Session,
    chain: VersionChain,
    from: readonly bigint[],
    options: { readonly dead: boolean },
  ): Promise<number>
  /** Keys of which something has waited longer than this. Takes no lock. */
  overdueKeys(session: Session, consumer: string, ageMs: number, limit: number): Promise<readonly string[]>
  /** Dead letters by key and version, after a place among them. Takes no lock. */
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
