/** A refused message that blocks its key, as `status` and `doctor` show it. */
export interface BlockingKey {
  readonly key: string
  readonly topic: string
  readonly id: string
  readonly attempts: number
  /** The number of messages that wait behind the refused message. */
  readonly waiting: number
  readonly error: string | undefined
}

export interface LeaseFigures {
  readonly name: string
  readonly owner: string
  readonly term: bigint
  /** The time until the lease expires; negative if the lease has expired. */
  readonly remainingMs: number
}

/** A count that stops at a limit, so that its cost does not depend on the number of rows. */
export interface BoundedCount {
  readonly count: number
  /** Whether there are more rows than `count`. */
  readonly atLeast: boolean
}

/**
 * The message that has been due the longest without being delivered: published by a relay, or handled by a receiver of its
 * queue or by its local consumer. Retries and uncounted waiting do not change how long a message has been due.
 */
export interface OldestDue {
  /** The time since the message was stored, since its `deliverAt`, or since its last redrive, whichever is the latest. */
  readonly ageMs: number
  /** `'scheduled'`: a message whose `deliverAt` has come. */
  readonly in: 'backlog' | 'parked' | 'scheduled' | 'queue' | 'local'
  readonly id: string
  /** The topic; in a queue, the name of the queue. Absent if the message has only local consumers. */
  readonly topic?: string
  /** The local consumer that has not handled the message; absent if it is not a message of a local consumer. */
  readonly consumer?: string
}

/**
 * Parked messages, by what they wait for. Of those that are due, the ones that have been due the longest are counted, up to the
 * limit of all these counts together.
 */
export interface ParkedFigures {
  /** The sum of `refused` and `behind`. */
  readonly parked: BoundedCount
  /** The number of messages that wait for another attempt. */
  readonly refused: BoundedCount
  /** The number of messages that wait behind another message of their key. */
  readonly behind: BoundedCount
  /** The number of messages with a `deliverAt` that have not been refused: their time has not come, or has just come. */
  readonly scheduled: BoundedCount
}

/** The state of all tables at one moment. */
export interface StatusFigures extends ParkedFigures {
  /** Over backlog, parked and scheduled messages, queues and local consumers; `undefined` if no message is due. */
  readonly oldestDue: OldestDue | undefined
  readonly backlog: BoundedCount
  /** The age of the oldest message in the backlog; `undefined` if the backlog is empty. */
  readonly oldestMs: number | undefined
  readonly dead: BoundedCount
  /** Leases that are held, and expired leases of shards that no other relay has taken over yet. */
  readonly leases: readonly LeaseFigures[]
  /** The number of claims; from 10,000 on, the server's estimate. */
  readonly claims: number
  readonly claimsAreExact: boolean
  readonly expired: BoundedCount
  readonly inboxBytes: number
  readonly lastCollection:
    | {
        readonly finishedAt: Date
        readonly inbox: number
        readonly deadLetters: number
        readonly durationMs: number
      }
    | undefined
}

export interface QueueFigures {
  readonly name: string
  /** The number of messages that can be received now. */
  readonly due: BoundedCount
  /** How long ago the oldest of these messages became visible. */
  readonly oldestMs: number | undefined
  /** The number of messages that wait behind another message of their key. */
  readonly waiting: BoundedCount
  /** The number of messages that become visible later: scheduled messages, and messages that wait for a retry. */
  readonly delayed: BoundedCount
  /** The number of received messages whose visibility timeout is not over yet. */
  readonly inFlight: BoundedCount
  readonly dead: BoundedCount
}

/** A local consumer that has rows or subscriptions. */
export interface LocalConsumerFigures extends ParkedFigures {
  readonly name: string
  /** The types that are registered for the consumer. Outboxes may have further subscriptions as options. */
  readonly types: readonly string[]
  /** The number of messages that have not been tried yet. */
  readonly waiting: BoundedCount
  /** The age of the oldest of them; `undefined` if there is none. */
  readonly oldestMs: number | undefined
  /** The number of messages that wait for another attempt, or for a handler of their type. */
  readonly refused: BoundedCount
  readonly dead: BoundedCount
  /** Some of the types of parked messages for which the consumer has no handler. */
  readonly unhandled: readonly string[]
  /** Whether a process runs the consumer now. */
  readonly runsNow: boolean
  readonly oldestDue: OldestDue | undefined
}

export interface CollectableFigures {
  /** Expired claims. */
  readonly inbox: BoundedCount
  /** Dead letters of the outbox, of stored queues and of local consumers. */
  readonly deadLetters: BoundedCount
  /** Records of redrives, and of ended subscriptions. */
  readonly redrives: BoundedCount
  /** Dead letters of version buffers. */
  readonly bufferedDeadLetters: BoundedCount
  /** Rows of handled messages of stored queues that are not removed yet, counted in the first 1000 queues. */
  readonly handled: BoundedCount
}

/**
 * A key of a stored queue none of whose messages is visible or in flight, so that none of its messages will ever be
 * received.
 */
export interface StuckKey {
  readonly queue: string
  readonly key: string
  /** The first message of the key. */
  readonly id: string
  readonly waiting: BoundedCount
}

/** How far the relay is behind: the messages of the outbox that are due. Local consumers are not part of it. */
export interface Lag {
  readonly backlog: BoundedCount
  /** The age of the oldest message in the backlog; `undefined` if the backlog is empty. */
  readonly oldestMs: number | undefined
  /** The parked messages that are due: refused ones and those behind them, and scheduled messages whose time has come. */
  readonly parked: BoundedCount
  /** Over backlog, parked and scheduled messages; `undefined` if no message is due. */
  readonly oldestDue: OldestDue | undefined
}

/** The result of one check. */
export interface Finding {
  /** A short, stable name of the check. */
  readonly check: string
  /**
   * `'problem'`: something does not work, or a guarantee does not hold. `'warning'`: something will cause trouble
   * later.
   */
  readonly verdict: 'ok' | 'note' | 'warning' | 'problem'
  readonly found: string
  readonly advice?: string | undefined
}

/**
 * Figures and findings for operators. All methods only read, take no lock that another transaction would wait for, and
 * count a bounded number of rows.
 */
export interface InspectionStore {
  /**
   * @param countLimit the number at which counts stop. @default 1,000,000
   * @throws {SchemaError} when the tables are missing.
   */
  status(countLimit?: number): Promise<StatusFigures>
  /**
   * Returns the messages that have been due the longest: that of all stored queues, and that of all local consumers. A part
   * without due messages is left out.
   */
  oldestOutsideOutbox(): Promise<readonly OldestDue[]>
  /** The part of `status` that is cheap, and needs only the privileges of a relay. */
  lag(): Promise<Lag>
  /**
   * For readiness probes: checks that the database answers within `withinMs` milliseconds, and that its tables have the
   * revision that this version of txbox needs.
   *
   * @throws {SchemaError} when the tables are missing or have another revision.
   * @throws {DatabaseUnavailableError} when the database does not answer within `withinMs`.
   */
  answers(withinMs: number): Promise<void>
  /** Counts the rows that a garbage collector would remove now. */
  collectable(deadLetterRetentionMs: number): Promise<CollectableFigures>
  /** Returns whether a stored queue has messages or dead letters, or has ever had a receiver. */
  hasQueue(name: string): Promise<boolean>
  /** Returns at most `limit` stored queues that have messages or dead letters, ordered by name. */
  queues(limit: number): Promise<readonly QueueFigures[]>
  /**
   * Returns at most `limit` stuck keys of stored queues, ordered by queue. A stuck key is the result of a fault: there
   * should be none. `examined` is the number of keys that were examined, by the first message of each key.
   */
  stuckKeys(limit: number): Promise<{ readonly keys: readonly StuckKey[]; readonly examined: BoundedCount }>
  /** Returns at most `limit` local consumers that have messages, dead letters or subscriptions, ordered by name. */
  localConsumers(limit: number): Promise<readonly LocalConsumerFigures[]>
  /** Returns at most `limit` blocked keys, those with the most waiting messages first. */
  blockingKeys(limit: number): Promise<readonly BlockingKey[]>
  /** Counts the keys that are blocked by a refused message. */
  blockedKeys(): Promise<BoundedCount>
  /**
   * Checks the server and the tables. Works without tables, and for a user who may not see everything. Also reports
   * transactions that have been open for longer than `longTransactionMs`, because they keep the server from removing
   * deleted rows.
   */
  diagnose(options: { readonly longTransactionMs: number }): Promise<readonly Finding[]>
}
