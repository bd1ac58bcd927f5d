import type { DeadLetter, DeadLetterPage, KeptError, ParkedMessage } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import type { Row, RowReader } from './row-reader.ts'

/** Converts rows to dead letters and parked messages. */
export class DeadLetterRows {
  readonly #read: RowReader

  constructor(read: RowReader) {
    this.#read = read
  }

  deadLetters(rows: readonly Row[], last: Row | undefined): DeadLetterPage {
    return this.#page(rows, last, (row) => this.#deadLetter(row))
  }

  parked(rows: readonly Row[], last: Row | undefined): DeadLetterPage<ParkedMessage> {
    return this.#page(rows, last, (row) => this.#parked(row))
  }

  /** Returns the position from which the search continues after a row. */
  positionOf(row: Row): { readonly id: string; readonly place: string } {
    return { id: this.#read.text(row, 'id'), place: this.#read.text(row, 'place') }
  }

  #page<M>(rows: readonly Row[], last: Row | undefined, toMessage: (row: Row) => M): DeadLetterPage<M> {
    return { messages: rows.map(toMessage), next: last && this.positionOf(last) }
  }

  #deadLetter(row: Row): DeadLetter {
    const by = this.#read.optionalText(row, 'redriven_by')
    return {
      ...this.#message(row),
      deadAt: this.#read.date(row, 'dead_at'),
      ...(by !== undefined && { redriven: { at: this.#read.date(row, 'redriven_at'), by } }),
    }
  }

  #parked(row: Row): ParkedMessage {
    return {
      ...this.#message(row),
      ...(row['due_at'] !== null && { dueAt: this.#read.date(row, 'due_at') }),
    }
  }

  #message(row: Row): Omit<ParkedMessage, 'dueAt'> {
    const text = (name: string): string | undefined => this.#read.optionalText(row, name)
    const [type, key, correlationId] = ['type', 'key', 'correlation_id'].map(text)
    return {
      id: this.#read.text(row, 'id'),
      topic: this.#read.text(row, 'topic'),
      ...(type !== undefined && { type }),
      ...(key !== undefined && { key }),
      contentType: this.#read.text(row, 'content_type'),
      ...(correlationId !== undefined && { correlationId }),
      createdAt: this.#read.date(row, 'created_at'),
      attempts: this.#read.number(row, 'attempts'),
      error: text('error') ?? '',
    }
  }
}

/** Returns the row after which the next page begins; `undefined` if this page is the last. */
export function lastOfFull(rows: readonly Row[], limit: number): Row | undefined {
  return rows.length < limit ? undefined : rows.at(-1)
}

/** Reads the column `errors`. What is not an error there was written by hand, and is left out. */
export function keptErrors(json: string | undefined): readonly KeptError[] {
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
