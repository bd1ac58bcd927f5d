import type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterPage,
  DeadLetterStore,
  ParkedMessage,
  StoredPayload,
} from '@txbox/core'
import type { Row } from './backlog-message.ts'
import type { deadLetterStatements } from './dead-letter-statements.ts'
import { runAlone, type Source } from './run-alone.ts'

/** Behind all places of an id. */
const LAST_PLACE = '9223372036854775807'

/** The dead letters of PostgreSQL. The contract is that of the port. */
export class PostgresDeadLetterStore implements DeadLetterStore {
  readonly #sql: ReturnType<typeof deadLetterStatements>
  readonly #source: Source

  constructor(statements: ReturnType<typeof deadLetterStatements>, source: Source) {
    this.#sql = statements
    this.#source = source
  }

  async list(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    return pageOf(await this.#run('listing dead letters', this.#sql.list, filter, limit), limit, toDeadLetter)
  }

  async redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<DeadLetterPage> {
    const rows = await this.#run('redriving dead letters', this.#sql.redrive, filter, limit, by)
    return pageOf(rows, limit, toDeadLetter)
  }

  async discard(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    const rows = await this.#run('discarding dead letters', this.#sql.discard, filter, limit)
    return pageOf(rows, limit, toDeadLetter)
  }

  async listParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    const rows = await this.#run('listing parked messages', this.#sql.listParked, filter, limit)
    return pageOf(rows, limit, toParked)
  }

  async discardParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    const rows = await this.#run('discarding parked messages', this.#sql.discardParked, filter, limit)
    return pageOf(rows, limit, toParked)
  }

  async payloads(id: string, parked: boolean, limit: number): Promise<readonly StoredPayload[]> {
    const values = [id, parked, limit]
    const { rows } = await runAlone(this.#source, 'reading a payload', this.#sql.payloads, values)
    return rows.map((row) => ({
      contentType: row['content_type'] as string,
      headers: row['headers'] as string,
      payload: Buffer.from(row['payload'] as string, 'hex'),
    }))
  }

  async #run(
    doing: string,
    text: string,
    { ids, topic, type, key, after }: DeadLetterFilter,
    limit: number,
    ...more: readonly string[]
  ): Promise<readonly Row[]> {
    const position = [after?.id ?? null, after === undefined ? null : (after.place ?? LAST_PLACE)]
    const values = [ids ?? null, topic ?? null, type ?? null, key ?? null, ...position, limit, ...more]
    return (await runAlone(this.#source, doing, text, values)).rows
  }
}

function pageOf<M>(rows: readonly Row[], limit: number, toMessage: (row: Row) => M): DeadLetterPage<M> {
  const last = rows.length < limit ? undefined : rows.at(-1)
  return {
    messages: rows.map(toMessage),
    next: last && { id: last['id'] as string, place: last['place'] as string },
  }
}

function toDeadLetter(row: Row): DeadLetter {
  const by = textIn(row, 'redriven_by')
  return {
    ...toMessage(row),
    deadAt: dateIn(row, 'dead_at'),
    ...(by !== undefined && { redriven: { at: dateIn(row, 'redriven_at'), by } }),
  }
}

function toParked(row: Row): ParkedMessage {
  return { ...toMessage(row), ...(row['due_at'] !== null && { dueAt: dateIn(row, 'due_at') }) }
}

function toMessage(row: Row): Omit<ParkedMessage, 'dueAt'> {
  const [type, key, correlationId] = ['type', 'key', 'correlation_id'].map((name) => textIn(row, name))
  return {
    id: row['id'] as string,
    topic: row['topic'] as string,
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
    contentType: row['content_type'] as string,
    ...(correlationId !== undefined && { correlationId }),
    createdAt: dateIn(row, 'created_at'),
    attempts: Number(row['attempts']),
    error: textIn(row, 'error') ?? '',
  }
}

function textIn(row: Row, name: string): string | undefined {
  return (row[name] as string | null) ?? undefined
}

function dateIn(row: Row, name: string): Date {
  // 'infinity' is an instant of PostgreSQL's, and so is one long before any that is known here.
  return new Date(Math.min(Math.max(Number(row[name]), Date.parse('0001-01-01')), Date.UTC(9999, 11, 31)))
}
