/* Only PostgreSQL leaves deleted rows in the index until vacuum, so that a scan needs a start that it remembers. */
/** Rows that a read walks over for nothing, before it is worth a look at who is writing. */
const WORTH_A_LOOK = 1000

/** Then the next read begins at the beginning: for rows whose numbers came from elsewhere, or from a sequence that was reset. */
const FORGOTTEN_AFTER_MS = 30_000

/** Somebody who has written to the outbox in a transaction that is still open. */
export interface OpenWriter {
  readonly writer: string
  /** Waits for COMMIT PREPARED: it goes on under another name than it began with. */
  readonly prepared: boolean
}

/** One read of a shard. */
export interface Scan {
  /** The first number that it reads. */
  readonly from: bigint
  /** Up to here, what it does not find never comes. */
  readonly certain: bigint | undefined
  /** The life of the start to which this belongs: a start begins again now and then, and forgets everything. */
  readonly life: number
}

/**
 * From which number on a shard has to be read. While some old snapshot is open, deleted rows stay in the index, and a
 * read from the beginning walks over all of them.
 *
 * Nothing below the start is there, or ever comes:
 * - A number is drawn by an INSERT that holds its lock on the table until its transaction ends, and numbers grow. So when
 *   a message has been seen, whoever has drawn a smaller number is done, or is among the writers that are open then.
 * - When all of those have ended, or there were none, one more read from the old start, with a snapshot taken after that,
 *   sees all that there will ever be up to that message. What it finds first is the new start.
 *
 * It forgets everything now and then: a row that was written by hand with a chosen number, or after a manual reset of the
 * sequence, is read late, but it is read.
 */
export class ScanStart {
  #from = 0n
  #life = 0
  /** The greatest number that has been seen. */
  #seen = 0n
  /** Deleted since the start moved: what a read walks over at most. */
  #passed = 0
  #beganAt = performance.now()
  /** Who was writing when it was asked last, and what had been seen before that; until a read makes use of it. */
  #look: { readonly seenBefore: bigint; readonly open: readonly OpenWriter[] } | undefined
  /** No smaller number is drawn by anybody when these have ended. */
  #mark: { readonly upTo: bigint; readonly open: ReadonlySet<string> } | undefined

  /** So much has been deleted that it is worth to ask who is writing. */
  get needsLook(): boolean {
    return this.#passed >= WORTH_A_LOOK && this.#look === undefined
  }

  /**
   * To be called before the writers are asked for; what it returns, with their answer. One look after the other: an older
   * answer after a newer one would be taken for the end of whoever began in between.
   */
  look(): (open: readonly OpenWriter[]) => void {
    const [seenBefore, life] = [this.#seen, this.#life]
    return (open) => {
      if (life === this.#life) this.#look = { seenBefore, open }
    }
  }

  /** The first number that a shard may have. */
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

  /** A read that begins after this, and so after the last look. */
  begin(): Scan {
    const [from, life] = [this.from(), this.#life]
    const [mark, look] = [this.#mark, this.#look]
    if (look === undefined) return { from, certain: undefined, life }
    this.#look = undefined
    const ended = mark === undefined || look.open.every((one) => !one.prepared && !mark.open.has(one.writer))
    if (ended) {
      this.#mark = { upTo: look.seenBefore, open: new Set(look.open.map(({ writer }) => writer)) }
    }
    // Nobody was writing: below what had been seen nothing is still to come.
    if (look.open.length === 0) return { from, certain: look.seenBefore, life }
    return { from, certain: ended ? mark?.upTo : undefined, life }
  }

  /** The first and the last number that it has found. */
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

/** Those of all shards. Who is writing is the same for all of them, so that it is asked once for many reads. */
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

  /** The numbers now come from another server. Reads and queries in progress are void. */
  forget(): void {
    this.#starts = new Map()
  }

  /** Whoever comes while somebody else is asking does without: to begin further back is slower, and nothing else. */
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
