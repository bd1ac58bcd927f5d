import type { DeadLetter, DeadLetterFilter, DeadLetterPage } from '@txbox/core'
import type { DeadLetterStore, KeptError, ParkedMessage, StoredPayload } from '@txbox/core/ports'
import { propertyOf } from '@txbox/core/internal'
import type { Row, RowReader } from '../row-reader.ts'

/** The calls that select messages by a filter. */
export type Selecting = 'list' | 'newest' | 'redrive' | 'discard' | 'listParked' | 'discardParked' | 'retry'

const DOING: Readonly<Record<Selecting | 'payloads' | 'errors', string>> = {
  list: 'listing dead letters',
  redrive: 'redriving dead letters',
  discard: 'discarding dead letters',
  listParked: 'listing parked messages',
  discardParked: 'discarding parked messages',
  retry: 'making parked messages due',
  newest: 'listing the newest dead letters',
  payloads: 'reading a payload',
  errors: 'reading errors',
}

export interface SelectedRows {
  readonly rows: readonly Row[]
  /** The row after which the next page begins; `undefined` if this page is the last. */
  readonly last: Row | undefined
}

interface DeadLetterDatabase {
  readonly read: RowReader
  /** Selects messages, and does what the call says with them. `by` is the name of the operator who redrives. */
  select(
    call: Selecting,
    doing: string,
    filter: DeadLetterFilter,
    limit: number,
    by: string,
  ): Promise<SelectedRows>
  /** Reads the payloads or the errors of all messages with one id. */
  ofId(
    call: 'payloads' | 'errors',
    doing: string,
    id: string,
    parked: boolean,
    limit: number,
    consumer: string | undefined,
  ): Promise<readonly Row[]>
  payloadOf(row: Row): Uint8Array
}

export class SqlDeadLetterStore implements DeadLetterStore {
  readonly #database: DeadLetterDatabase

  constructor(database: DeadLetterDatabase) {
    this.#database = database
  }

  list(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    return this.#deadLetters('list', filter, limit)
  }

  redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<DeadLetterPage> {
    return this.#deadLetters('redrive', filter, limit, by)
  }

  discard(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    return this.#deadLetters('discard', filter, limit)
  }

  listParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    return this.#parked('listParked', filter, limit)
  }

  discardParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    return this.#parked('discardParked', filter, limit)
  }

  retry(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    return this.#parked('retry', filter, limit)
  }

  async newest(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
    return (await this.#deadLetters('newest', filter, limit)).messages
  }

  async payloads(
    id: string,
    parked: boolean,
    limit: number,
    consumer?: string,
  ): Promise<readonly StoredPayload[]> {
    const { read } = this.#database
    const rows = await this.#database.ofId('payloads', DOING.payloads, id, parked, limit, consumer)
    return rows.map((row) => ({
      contentType: read.text(row, 'content_type'),
      headers: read.text(row, 'headers'),
      payload: this.#database.payloadOf(row),
    }))
  }

  async errors(
    id: string,
    parked: boolean,
    limit: number,
    consumer?: string,
  ): Promise<readonly (readonly KeptError[])[]> {
    const rows = await this.#database.ofId('errors', DOING.errors, id, parked, limit, consumer)
    return rows.map((row) => keptErrors(this.#database.read.optionalText(row, 'errors')))
  }

  async #deadLetters(
    call: Selecting,
    filter: DeadLetterFilter,
    limit: number,
    by = '',
  ): Promise<DeadLetterPage> {
    const { read } = this.#database
    return this.#page(
      await this.#database.select(call, DOING[call], filter, limit, by),
      (row): DeadLetter => {
        const redrivenBy = read.optionalText(row, 'redriven_by')
        return {
          ...this.#message(row),
          deadAt: read.date(row, 'dead_at'),
          ...(redrivenBy !== undefined && {
            redriven: { at: read.date(row, 'redriven_at'), by: redrivenBy },
          }),
        }
      },
    )
  }

  async #parked(
    call: Selecting,
    filter: DeadLetterFilter,
    limit: number,
  ): Promise<DeadLetterPage<ParkedMessage>> {
    const { read } = this.#database
    return this.#page(await this.#database.select(call, DOING[call], filter, limit, ''), (row) => ({
      ...this.#message(row),
      ...(row['due_at'] !== null && { dueAt: read.date(row, 'due_at') }),
    }))
  }

  #page<M>({ rows, last }: SelectedRows, toMessage: (row: Row) => M): DeadLetterPage<M> {
    return { messages: rows.map(toMessage), next: last && positionOf(this.#database.read, last) }
  }

  #message(row: Row): Omit<ParkedMessage, 'dueAt'> {
    const { read } = this.#database
    const text = (name: string): string | undefined => read.optionalText(row, name)
    const names = ['topic', 'consumer', 'type', 'key', 'correlation_id']
    const [topic, consumer, type, key, correlationId] = names.map(text)
    return {
      id: read.text(row, 'id'),
      ...(topic !== undefined && { topic }),
      ...(consumer !== undefined && { consumer }),
      ...(type !== undefined && { type }),
      ...(key !== undefined && { key }),
      contentType: read.text(row, 'content_type'),
      ...(correlationId !== undefined && { correlationId }),
      createdAt: read.date(row, 'created_at'),
      attempts: read.number(row, 'attempts'),
      error: text('error') ?? '',
    }
  }
}

export function positionOf(read: RowReader, row: Row): { readonly id: string; readonly place: string } {
  return { id: read.text(row, 'id'), place: read.text(row, 'place') }
}

/** A page that is not full is the last. */
export function pageOf(rows: readonly Row[], limit: number): SelectedRows {
  return { rows, last: rows.length < limit ? undefined : rows.at(-1) }
}

/** Reads the column `errors`. Elements that are not errors were written by hand, and are left out. */
function keptErrors(json: string | undefined): readonly KeptError[] {
  let list: unknown
  try {
    list = JSON.parse(json ?? '[]')
  } catch {
    return []
  }
  if (!Array.isArray(list)) return []
  return list.flatMap((entry: unknown): KeptError[] => {
    const [at, attempt, error] = ['at', 'attempt', 'error'].map((name) => propertyOf(entry, name))
    const date = new Date(typeof at === 'string' ? at : NaN)
    if (Number.isNaN(date.getTime()) || typeof attempt !== 'number' || typeof error !== 'string') return []
    return [{ at: date, attempt, error }]
  })
}
