import { bytesOf, type StoredRecord } from './stored-record.ts'

/**
 * A partition that belongs to this member of the group, with the records that were read. Kafka keeps one number for each partition,
 * the committed offset: all records before it are settled.
 */
export class OwnedPartition {
  readonly topic: string
  readonly partition: number
  /** The offset of the next record to fetch; undefined until Kafka has said where the group goes on. */
  position: bigint | undefined
  /** The offset that Kafka has last. */
  committed = -1n
  isFetching = false
  /** The id of the topic of which records were fetched: a topic that is created again has another one. */
  topicId: string | undefined
  /** No fetch before this time, by `performance.now()`. */
  retryAt = 0
  /** The records that are not settled, by their offsets, the oldest first. */
  readonly #unsettled = new Map<bigint, StoredRecord>()
  /** Records before this offset were accepted before they were handled, or together with one that was. */
  #acceptedBefore = -1n
  /** The records that were not handed out yet, the oldest first. */
  readonly #waiting: StoredRecord[] = []
  #waitingBytes = 0
  #isLost = false

  constructor(topic: string, partition: number) {
    this.topic = topic
    this.partition = partition
  }

  get isLost(): boolean {
    return this.#isLost
  }

  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /** The offset to commit: all records before it are settled, or accepted. Undefined if Kafka has it already. */
  get committable(): bigint | undefined {
    if (this.#isLost || this.position === undefined) return undefined
    const [oldest = this.position] = this.#unsettled.keys()
    const offset = oldest > this.#acceptedBefore ? oldest : this.#acceptedBefore
    return offset > this.committed ? offset : undefined
  }

  /** Sets where to go on. @param committed whether Kafka has this offset. */
  begin(offset: bigint, committed: boolean): void {
    this.position = offset
    this.committed = committed ? offset : -1n
  }

  /** Must be called when there is no record at the position. Records that were read before may still be settled. */
  lostPosition(): void {
    this.position = undefined
  }

  /** Adds what was fetched from the position on. */
  add(records: readonly StoredRecord[], next: bigint): void {
    for (const record of records) {
      this.#unsettled.set(record.offset, record)
      this.#waiting.push(record)
      this.#waitingBytes += bytesOf(record)
    }
    this.position = next
  }

  /** Takes the oldest record that was not handed out. */
  take(): StoredRecord | undefined {
    const record = this.#waiting.shift()
    if (record !== undefined) this.#waitingBytes -= bytesOf(record)
    return record
  }

  settled(offset: bigint): void {
    this.#unsettled.delete(offset)
  }

  /**
   * Accepts a record before it is handled. Kafka keeps one number, so that all records before it are accepted, too: this process alone
   * may still handle them.
   */
  accept(offset: bigint): void {
    this.settled(offset)
    if (offset >= this.#acceptedBefore) this.#acceptedBefore = offset + 1n
  }

  /** Whether the record was accepted, possibly together with a later one. */
  isAccepted(offset: bigint): boolean {
    return offset < this.#acceptedBefore
  }

  /** Whether Kafka delivers the record to nobody any more. */
  isFinal(offset: bigint): boolean {
    return offset < this.committed
  }

  /** Hands a record out again, before later ones. */
  giveBack(record: StoredRecord): void {
    const at = this.#waiting.findIndex(({ offset }) => offset > record.offset)
    this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, record)
    this.#waitingBytes += bytesOf(record)
  }

  /**
   * From now on, another member may own the partition: nothing of it is handed out or committed.
   *
   * @returns the records that wait here to be handed out again, and that Kafka does not deliver to another member.
   */
  lose(): readonly StoredRecord[] {
    const abandoned = this.#waiting.filter(({ offset }) => this.isFinal(offset))
    this.#isLost = true
    this.#waiting.length = 0
    this.#waitingBytes = 0
    this.#unsettled.clear()
    return abandoned
  }
}
