/*
 * Only on PostgreSQL do deleted rows stay in the index until vacuum, so that a scan should start at a remembered number;
 * each statement checks that the number comes from this server. On MySQL and MariaDB, each answer contains the name of
 * the server.
 */
import { ANOTHER_SERVER } from './backlog-statements.ts'

/** How many times in a row a read may find that the server is another one. */
const ATTEMPTS = 5

/** The number of deleted rows that reads may scan before a query for open writers is worth its cost. */
const DELETED_BEFORE_QUERY = 1000

/**
 * After this time, the next read starts at the beginning again, to find rows whose numbers were chosen by hand or came
 * from a sequence that was reset.
 */
const FORGOTTEN_AFTER_MS = 30_000

/** Distinguishes a server and its tables from others with the same address. */
export interface Server {
  readonly identity: string
  /** The last number that the server is known to have assigned; 0 if the role may not read it. */
  readonly last: bigint
}

/** An open transaction that has written to the outbox. */
export interface OpenWriter {
  readonly writer: string
  /**
   * Whether the transaction is prepared, and waits for COMMIT PREPARED. A prepared transaction has another name than
   * before PREPARE.
   */
  readonly prepared: boolean
}

/** One read of a shard. */
export interface Scan {
  /** The first number that this read includes. */
  readonly from: bigint
  /** The highest number for which this read is complete: a missing number at or below it will never appear. */
  readonly certain: bigint | undefined
  /**
   * The life of the start to which this read belongs. From time to time, a start forgets everything and begins a new
   * life.
   */
  readonly life: number
}

/**
 * The number from which a shard must be read. While an old snapshot is open, deleted rows stay in the index, and a read
 * from the beginning scans all of them.
 *
 * There is no message below the start, and there never will be:
 * - An INSERT draws its number while it has a lock on the table, which it keeps until its transaction ends, and numbers
 *   grow. So when a message has been seen, every transaction that has drawn a smaller number has ended, or is among the
 *   open writers at that time.
 * - When all these writers have ended, or there were none, one more read from the old start, with a later snapshot,
 *   sees all messages that there will ever be up to that message. The first message that this read finds is the new
 *   start.
 *
 * From time to time the start forgets everything. A row that was written by hand with a chosen number, or after a
 * manual reset of the sequence, is therefore read late instead of never.
 */
export class ScanStart {
  #from = 0n
  #life = 0
  /** The greatest number that has been seen. */
  #seen = 0n
  /** The number of rows that were deleted since the start moved. A read scans at most this many deleted rows. */
  #passed = 0
  #beganAt = performance.now()
  /**
   * The open writers of the last query, and the greatest number that had been seen before that query. Kept until a read
   * uses them.
   */
  #look: { readonly seenBefore: bigint; readonly open: readonly OpenWriter[] } | undefined
  /** Once all writers in `open` have ended, no number up to `upTo` can appear any more. */
  #mark: { readonly upTo: bigint; readonly open: ReadonlySet<string> } | undefined

  /** Whether enough rows have been deleted to make a query for open writers worth its cost. */
  get needsLook(): boolean {
    return this.#passed >= DELETED_BEFORE_QUERY && this.#look === undefined
  }

  /**
   * Must be called before the query for open writers; the returned function takes the result of the query. Only one
   * query may run at a time: if an older result were taken after a newer one, writers that began in between would seem
   * to have ended.
   */
  look(): (open: readonly OpenWriter[]) => void {
    const [seenBefore, life] = [this.#seen, this.#life]
    return (open) => {
      if (life === this.#life) this.#look = { seenBefore, open }
    }
  }

  /** Returns the first number that a message of the shard may have. */
  from(): bigint {
    if (performance.now() - this.#beganAt > FORGOTTEN_AFTER_MS) {
      this.#from = 0n
      this.#seen = 0n
      this.#look = undefined
      this.#mark = undefined
      this.#life++
      this.#beganAt = performance.now()
    }
    return this.#from
  }

  /** Returns the scan for a read that begins now, after the last query for open writers. */
  begin(): Scan {
    const [from, life] = [this.from(), this.#life]
    const [mark, look] = [this.#mark, this.#look]
    if (look === undefined) return { from, certain: undefined, life }
    this.#look = undefined
    const ended = mark === undefined || look.open.every((one) => !one.prepared && !mark.open.has(one.writer))
    if (ended) {
      this.#mark = { upTo: look.seenBefore, open: new Set(look.open.map(({ writer }) => writer)) }
    }
    // There were no writers, so no number below the greatest seen one can still appear.
    if (look.open.length === 0) return { from, certain: look.seenBefore, life }
    return { from, certain: ended ? mark?.upTo : undefined, life }
  }

  /** Takes the first and the last number that the read found. */
  end({ certain, life }: Scan, first: bigint | undefined, last: bigint | undefined): void {
    if (life !== this.#life) return
    if (certain !== undefined) {
      const start = first !== undefined && first <= certain ? first : certain + 1n
      if (start > this.#from) {
        this.#from = start
        this.#passed = 0
      }
    }
    if (last !== undefined && last > this.#seen) this.#seen = last
  }

  deleted(count: number): void {
    this.#passed += count
  }
}

/** The starts of all shards. All shards have the same open writers, so one query serves many reads. */
export class ScanStarts {
  readonly #openWriters: () => Promise<readonly OpenWriter[]>
  #starts = new Map<number, ScanStart>()
  #looking = false

  constructor(openWriters: () => Promise<readonly OpenWriter[]>) {
    this.#openWriters = openWriters
  }

  of(shard: number): ScanStart {
    const start = this.#starts.get(shard) ?? new ScanStart()
    this.#starts.set(shard, start)
    return start
  }

  /**
   * Forgets all starts, because the numbers now come from another server. Reads and queries in progress no longer
   * count.
   */
  forget(): void {
    this.#starts = new Map()
  }

  /**
   * Returns the start and the scan for a read. While a query for open writers is running, other reads do not wait for
   * its result: a scan that starts too early is only slower.
   */
  async begin(shard: number): Promise<{ readonly start: ScanStart; readonly scan: Scan }> {
    if (this.of(shard).needsLook && !this.#looking) {
      this.#looking = true
      await this.#look().finally(() => (this.#looking = false))
    }
    const start = this.of(shard)
    return { start, scan: start.begin() }
  }

  async #look(): Promise<void> {
    const looks = [...this.#starts.values()].map((start) => start.look())
    const open = await this.#openWriters()
    for (const look of looks) look(open)
  }
}

/**
 * The server whose numbers are remembered. Statements that rely on a remembered number name this server, and fail on
 * any other: there is no time between checking and reading in which a server could be replaced.
 */
export class RememberedServer {
  readonly #ask: () => Promise<Server>
  readonly #forget: () => void
  #server: Server | undefined
  #asking: Promise<Server> | undefined
  #generation = 0

  /** @param forget discards all that is known about the numbers. */
  constructor(ask: () => Promise<Server>, forget: () => void) {
    this.#ask = ask
    this.#forget = forget
  }

  /** Increases when the server turns out to be another one. */
  get generation(): number {
    return this.#generation
  }

  /** Runs a read that names the server; repeats the read when the server turns out to be another one. */
  async remembering<R>(read: (server: Server) => Promise<R>): Promise<R> {
    for (let attempt = 1; ; attempt++) {
      const { generation } = this
      try {
        return await read(this.#server ?? (await this.#known()))
      } catch (error) {
        if (attempt === ATTEMPTS || !isAnotherServer(error)) throw error
        if (generation === this.#generation) this.#becomes(undefined)
      }
    }
  }

  /** Processes an answer that contains the identity of the server. */
  answered(server: Server): void {
    if (this.#server === undefined) return
    if (server.identity !== this.#server.identity || server.last < this.#server.last) this.#becomes(server)
    else this.#server = server
  }

  #becomes(server: Server | undefined): void {
    this.#server = server
    this.#generation++
    this.#forget()
  }

  #known(): Promise<Server> {
    this.#asking ??= this.#ask()
      .then((server) => (this.#server = server))
      .finally(() => (this.#asking = undefined))
    return this.#asking
  }
}

/** The server, and where the scans of its shards begin. */
export class RememberedNumbers extends RememberedServer {
  readonly starts: ScanStarts

  constructor(ask: () => Promise<Server>, openWriters: () => Promise<readonly OpenWriter[]>) {
    const starts = new ScanStarts(openWriters)
    super(ask, () => starts.forget())
    this.starts = starts
  }
}

function isAnotherServer(error: unknown): boolean {
  return error instanceof Error && error.message.includes(ANOTHER_SERVER)
}
