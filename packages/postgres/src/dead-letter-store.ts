import type { DeadLetter, DeadLetterFilter, DeadLetterStore } from '@txbox/core'
import type { Row } from './backlog-message.ts'
import type { deadLetterStatements } from './dead-letter-statements.ts'
import { runAlone, type Source } from './run-alone.ts'

/** The dead letters of PostgreSQL. The contract is that of the port. */
export class PostgresDeadLetterStore implements DeadLetterStore {
  readonly #sql: ReturnType<typeof deadLetterStatements>
  readonly #source: Source

  constructor(statements: ReturnType<typeof deadLetterStatements>, source: Source) {
    this.#sql = statements
    this.#source = source
  }

  list(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
    return this.#run('listing dead letters', this.#sql.list, valuesOf(filter, limit))
  }

  redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<readonly DeadLetter[]> {
    return this.#run('redriving dead letters', this.#sql.redrive, [...valuesOf(filter, limit), by])
  }

  discard(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
    return this.#run('discarding dead letters', this.#sql.discard, valuesOf(filter, limit))
  }

  async #run(doing: string, text: string, values: readonly unknown[]): Promise<readonly DeadLetter[]> {
    const { rows } = await runAlone(this.#source, doing, text, values)
    return rows.map(toDeadLetter)
  }
}

function valuesOf(filter: DeadLetterFilter, limit: number): readonly unknown[] {
  const { ids, topic, type, key, after } = filter
  return [ids ?? null, topic ?? null, type ?? null, key ?? null, after ?? null, limit]
}

function toDeadLetter(row: Row): DeadLetter {
  const text = (name: string): string | undefined => (row[name] as string | null) ?? undefined
  const date = (name: string): Date => new Date(Number(row[name]))
  const [type, key, correlationId, by] = ['type', 'key', 'correlation_id', 'redriven_by'].map(text)
  return {
    id: row['id'] as string,
    topic: row['topic'] as string,
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
    contentType: row['content_type'] as string,
    ...(correlationId !== undefined && { correlationId }),
    createdAt: date('created_at'),
    deadAt: date('dead_at'),
    attempts: Number(row['attempts']),
    error: text('error') ?? '',
    ...(by !== undefined && { redriven: { at: date('redriven_at'), by } }),
  }
}
