/** A message that holds up its key, as `status` and `doctor` show it. */
export interface BlockingKey {
  readonly key: string
  readonly topic: string
  /** The message that was refused. */
  readonly id: string
  readonly attempts: number
  readonly waiting: number
  readonly error: string | undefined
}

export interface LeaseFigures {
  readonly name: string
  readonly owner: string
  readonly term: bigint
  /** Until it runs out; negative when it has. */
  readonly remainingMs: number
}

/** A count that stops somewhere, so that asking costs the same at any size. */
export interface BoundedCount {
  readonly count: number
  /** There are more. */
  readonly atLeast: boolean
}

/** What there is at this moment. */
export interface StatusFigures {
  readonly backlog: BoundedCount
  /** Of the oldest message in the backlog. */
  readonly oldestMs: number | undefined
  readonly parked: BoundedCount
  readonly scheduled: BoundedCount
  readonly dead: BoundedCount
  /** Leases that are held, and leases of shards that expired because no other relay has replaced their relay. */
  readonly leases: readonly LeaseFigures[]
  /** All claims, as the server estimates them. */
  readonly claims: number
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

/** How far the relay is behind. */
export interface Lag {
  /** The number of messages in the outbox. */
  readonly backlog: BoundedCount
  /** The age of the oldest message in the outbox. */
  readonly oldestMs: number | undefined
}

/** One thing that was looked at. */
export interface Finding {
  /** A short, stable name. */
  readonly check: string
  /** `'problem'`: something does not work, or a promise does not hold; `'warning'`: it will hurt. */
  readonly verdict: 'ok' | 'note' | 'warning' | 'problem'
  readonly found: string
  /** What to do. */
  readonly advice?: string | undefined
}

/**
 * Figures and findings for people who run txbox. Reads only, takes no locks that anybody waits for, and no count walks
 * over more than a bounded number of rows.
 */
export interface InspectionStore {
  /** @throws {SchemaError} when the tables are missing. */
  status(): Promise<StatusFigures>
  /** A part of `status` that is always cheap, and for which the privileges of a relay suffice. */
  lag(): Promise<Lag>
  /**
   * Checks that the database answers within this time, with tables of this revision. For readiness probes: a late answer is
   * not waited for.
   *
   * @throws {SchemaError | DatabaseUnavailableError} when the database does not answer so.
   */
  answers(withinMs: number): Promise<void>
  /** What a collector would remove now. */
  collectable(
    deadLetterRetentionMs: number,
  ): Promise<{ readonly inbox: BoundedCount; readonly deadLetters: BoundedCount }>
  /** The messages at the head of blocked keys, those with most waiting behind them first. */
  blockingKeys(limit: number): Promise<readonly BlockingKey[]>
  /**
   * Looks at server and tables. Also without tables, and without the right to see everything. A transaction that is older
   * than `longTransactionMs` is reported: it keeps what was deleted since from being removed.
   */
  diagnose(options: { readonly longTransactionMs: number }): Promise<readonly Finding[]>
}
