/* PostgreSQL selects, changes and returns dead letters in one statement; MySQL and MariaDB need a transaction of several. */
import type {
  DeadLetterFilter,
  DeadLetterPage,
  DeadLetterStore,
  ParkedMessage,
  KeptError,
  StoredPayload,
} from '@txbox/core'
import { DeadLetterRows, keptErrors, lastOfFull, type Row, type Source } from '@txbox/sql'
import { columns } from './columns.ts'
import type { deadLetterStatements } from './dead-letter-statements.ts'
import { runAlone } from './run-alone.ts'

/** A place after all messages of an id. */
const LAST_PLACE = '9223372036854775807'

const pages = new DeadLetterRows(columns)

/** The dead letters of PostgreSQL. {@link DeadLetterStore} documents the methods. */
export class PostgresDeadLetterStore implements DeadLetterStore {
  readonly #sql: ReturnType<typeof deadLetterStatements>
  readonly #source: Source
  readonly #queue: string | undefined

  /** @param queue the stored queue whose dead letters these are; the statements must be those of its table. */
  constructor(statements: ReturnType<typeof deadLetterStatements>, source: Source, queue?: string) {
    this.#sql = statements
    this.#source = source
    this.#queue = queue
  }

  async list(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    const rows = await this.#run('listing dead letters', this.#sql.list, filter, limit)
    return pages.deadLetters(rows, lastOfFull(rows, limit))
  }

  async redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<DeadLetterPage> {
    const rows = await this.#run('redriving dead letters', this.#sql.redrive, filter, limit, by)
    return pages.deadLetters(rows, lastOfFull(rows, limit))
  }

  async discard(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    const rows = await this.#run('discarding dead letters', this.#sql.discard, filter, limit)
    return pages.deadLetters(rows, lastOfFull(rows, limit))
  }

  async listParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    const rows = await this.#run('listing parked messages', this.#sql.listParked, filter, limit)
    return pages.parked(rows, lastOfFull(rows, limit))
  }

  async discardParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    const rows = await this.#run('discarding parked messages', this.#sql.discardParked, filter, limit)
    return pages.parked(rows, lastOfFull(rows, limit))
  }

  async payloads(id: string, parked: boolean, limit: number): Promise<readonly StoredPayload[]> {
    const values = this.#ofId(id, parked, limit)
    const { rows } = await runAlone(this.#source, 'reading a payload', this.#sql.payloads, values)
    return rows.map((row) => ({
      contentType: columns.text(row, 'content_type'),
      headers: columns.text(row, 'headers'),
      payload: Buffer.from(columns.text(row, 'payload'), 'hex'),
    }))
  }

  async errors(id: string, parked: boolean, limit: number): Promise<readonly (readonly KeptError[])[]> {
    const { rows } = await runAlone(
      this.#source,
      'reading errors',
      this.#sql.errors,
      this.#ofId(id, parked, limit),
    )
    return rows.map((row) => keptErrors(columns.optionalText(row, 'errors')))
  }

  #ofId(...values: readonly [id: string, parked: boolean, limit: number]): readonly unknown[] {
    return this.#queue === undefined ? values : [...values, this.#queue]
  }

  async #run(
    doing: string,
    text: string,
    { ids, topic, type, key, after }: DeadLetterFilter,
    limit: number,
    ...more: readonly string[]
  ): Promise<readonly Row[]> {
    // The topic of a message in a queue is the queue.
    if (this.#queue !== undefined && topic !== undefined && topic !== this.#queue) return []
    const position = [after?.id ?? null, after === undefined ? null : (after.place ?? LAST_PLACE)]
    const values = [
      ids ?? null,
      this.#queue ?? topic ?? null,
      type ?? null,
      key ?? null,
      ...position,
      limit,
      ...more,
    ]
    return (await runAlone(this.#source, doing, text, values)).rows
  }
}
