import type { LocalMessage, LocalRead, ReadLimits } from '@txbox/core/ports'

interface ModelRow {
  message: LocalMessage
  /** Of a parked row: when it is due; `undefined` while it waits behind another one. */
  dueAt?: number | undefined
}

/** The rows of one shard of a local consumer, as a database with one publisher a key has them. */
export class LocalShardModel {
  now = 0
  #waiting: ModelRow[] = []
  #parked: ModelRow[] = []
  /** Numbers that open transactions have drawn. */
  readonly #open = new Map<bigint, { readonly key: string | undefined; readonly bytes: number }>()
  #seq = 0n
  #place = 0n

  get size(): number {
    return this.#waiting.length + this.#parked.length
  }

  get openNumbers(): readonly bigint[] {
    return [...this.#open.keys()]
  }

  /** Stores a row, or draws its number only: then `commit` stores it. Nobody else publishes the key meanwhile. */
  publish(key: string | undefined, bytes: number, isOpen: boolean): void {
    if (key !== undefined && [...this.#open.values()].some((open) => open.key === key)) return
    const seq = ++this.#seq
    this.#open.set(seq, { key, bytes })
    if (!isOpen) this.commit(seq)
  }

  commit(seq: bigint): void {
    const { key, bytes } = this.#open.get(seq)!
    this.#open.delete(seq)
    this.#waiting.push({ message: messageOf('waiting', seq, key, bytes, 0) })
    this.#waiting.sort((one, other) => (one.message.seq < other.message.seq ? -1 : 1))
  }

  read(
    { messages: most, bytes }: ReadLimits,
    after: bigint | undefined,
    without: readonly string[] = [],
  ): LocalRead {
    const behind = this.#waiting.filter(
      ({ message: { seq, key } }) =>
        (after === undefined || seq > after) && (key === undefined || !without.includes(key)),
    )
    const rows = limited(behind, most, bytes).map(({ message }) =>
      Object.assign({}, message, {
        blocked: this.#parked.some(
          (parked) => parked.message.key !== undefined && parked.message.key === message.key,
        ),
      }),
    )
    const open = this.openNumbers
    const certain =
      open.length === 0 ? this.#seq : open.reduce((one, other) => (other < one ? other : one)) - 1n
    return { messages: rows, certain: certain > 0n ? certain : undefined }
  }

  /**
   * A row that was refused comes alone, and a released one with those that wait behind it. A row that is due but not the first of its
   * key waits from now on.
   */
  readDue({ messages: most, bytes }: ReadLimits): readonly LocalMessage[] {
    const isFirst = (row: ModelRow): boolean =>
      row.message.key === undefined ||
      this.#parked.find(({ message }) => message.key === row.message.key) === row
    const allDue = this.#parked.filter(({ dueAt }) => dueAt !== undefined && dueAt <= this.now)
    for (const row of allDue) if (!isFirst(row)) row.dueAt = undefined
    const due = allDue.filter(isFirst)
    const rows = due.flatMap((row) => {
      const { key, attempts } = row.message
      if (key === undefined || attempts > 0) return [row]
      const later = this.#parked.filter(
        (other) => other.message.key === key && other.message.seq >= row.message.seq,
      )
      const end = later.findIndex((other, n) => n > 0 && other.dueAt !== undefined && other.dueAt > this.now)
      return end < 0 ? later : later.slice(0, end)
    })
    return limited(rows, most, bytes).map(({ message }) => message)
  }

  has(row: LocalMessage): boolean {
    return this.#find(row) !== undefined
  }

  remove(row: LocalMessage): void {
    this.#waiting = this.#waiting.filter(({ message }) => !isSame(message, row))
    this.#parked = this.#parked.filter(({ message }) => !isSame(message, row))
  }

  /** Refuses a row: it is parked, or stays parked with one attempt more. */
  refuse(row: LocalMessage, delay: number): void {
    const found = this.#find(row)
    if (found === undefined) return
    const dueAt = this.now + delay
    if (row.in === 'waiting') this.#park(row, dueAt, row.attempts + 1)
    else Object.assign(found, { dueAt, message: { ...found.message, attempts: row.attempts + 1 } })
  }

  behind(row: LocalMessage): void {
    if (this.has(row)) this.#park(row, undefined, 0)
  }

  release(key: string): void {
    const head = this.#parked.find(({ message }) => message.key === key)
    if (head !== undefined && head.dueAt === undefined) head.dueAt = this.now
  }

  /** Whether every row that precedes this one in its key is among these. */
  isFirst(row: LocalMessage, among: readonly LocalMessage[]): boolean {
    if (row.key === undefined) return true
    const ofKey = [...this.#parked, ...this.#waiting].filter(({ message }) => message.key === row.key)
    const place = ofKey.findIndex(({ message }) => isSame(message, row))
    return ofKey.slice(0, place).every(({ message }) => among.some((other) => isSame(message, other)))
  }

  /** Whether a parked row may be handled now, as far as its due time says. */
  mayBegin(row: LocalMessage): boolean {
    const dueAt = this.#find(row)?.dueAt
    return dueAt === undefined || dueAt <= this.now
  }

  #park(row: LocalMessage, dueAt: number | undefined, attempts: number): void {
    this.remove(row)
    const place = ++this.#place
    this.#parked.push({ message: messageOf('parked', place, row.key, row.payload.length, attempts), dueAt })
  }

  #find(row: LocalMessage): ModelRow | undefined {
    return [...this.#waiting, ...this.#parked].find(({ message }) => isSame(message, row))
  }
}

function limited(rows: readonly ModelRow[], most: number, bytes: number): readonly ModelRow[] {
  let sum = 0
  const end = rows.findIndex(({ message }, n) => {
    sum += message.payload.length
    return n > 0 && (n >= most || sum > bytes)
  })
  return end < 0 ? rows : rows.slice(0, end)
}

function isSame(one: LocalMessage, other: LocalMessage): boolean {
  return one.in === other.in && one.seq === other.seq
}

function messageOf(
  table: LocalMessage['in'],
  seq: bigint,
  key: string | undefined,
  bytes: number,
  attempts: number,
): LocalMessage {
  return {
    in: table,
    seq,
    stamp: Number(seq),
    key,
    ordered: key !== undefined,
    blocked: false,
    attempts,
    payload: new Uint8Array(bytes),
    isSuspect: false,
  } as unknown as LocalMessage
}
