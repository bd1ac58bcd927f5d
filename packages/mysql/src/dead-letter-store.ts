import type { DeadLetter, DeadLetterFilter, DeadLetterStore } from '@txbox/core'
import { dateOf, type Row } from './backlog-message.ts'
import type { deadLetterStatements } from './dead-letter-statements.ts'
import { fill, optionalTextOf, textOf } from './literals.ts'
import { runAlone, runTogether, type Source } from './run-alone.ts'
import type { Run } from './short-transaction.ts'

/** The dead letters of MySQL and MariaDB. The contract is that of the port. */
export class MysqlDeadLetterStore implements DeadLetterStore {
  readonly #sql: ReturnType<typeof deadLetterStatements>
  readonly #source: Source

  constructor(statements: ReturnType<typeof deadLetterStatements>, source: Source) {
    this.#sql = statements
    this.#source = source
  }

  async list(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
    const { rows } = await runAlone(this.#source, 'listing dead letters', this.#chosen(filter, ''), [limit])
    return rows.map(toDeadLetter)
  }

  redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<readonly DeadLetter[]> {
    return this.#touch('redriving dead letters', filter, limit, async (run, rows) => {
      const chosen = firstOfEachKey(rows)
      await run(this.#sql.record, [by, chosen])
      await run(this.#sql.redrive, [chosen])
    })
  }

  discard(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
    return this.#touch('discarding dead letters', filter, limit, (run, rows) =>
      run(this.#sql.discard, [firstOfEachKey(rows)]),
    )
  }

  /** Whoever else asks for them waits, and finds none. */
  #touch(
    doing: string,
    filter: DeadLetterFilter,
    limit: number,
    work: (run: Run, rows: readonly Row[]) => Promise<unknown>,
  ): Promise<readonly DeadLetter[]> {
    return runTogether(this.#source, doing, async (run) => {
      const { rows } = await run(this.#chosen(filter, 'for update'), [limit])
      if (rows.length > 0) await work(run, rows)
      return rows.map(toDeadLetter)
    })
  }

  #chosen({ ids, topic, type, key, after }: DeadLetterFilter, lock: string): string {
    const bytes = (text: string): Buffer => Buffer.from(text)
    const conditions = [
      // `IN ()` is no SQL. No id is empty.
      ...(ids === undefined ? [] : [fill(this.#sql.ids, [['', ...ids].map(bytes)])]),
      ...(topic === undefined ? [] : [fill(this.#sql.topic, [bytes(topic)])]),
      ...(type === undefined ? [] : [fill(this.#sql.type, [bytes(type)])]),
      ...(key === undefined ? [] : [fill(this.#sql.key, [bytes(key)])]),
      ...(after === undefined ? [] : [fill(this.#sql.after, [bytes(after)])]),
    ]
    return this.#sql.select.replace('CHOSEN', () => conditions.join('')).replace('LOCKED', lock)
  }
}

/** As JSON: each place, and whether it comes first of its key among these, or has no order. */
function firstOfEachKey(rows: readonly Row[]): string {
  const seen = new Set<string>()
  const places = rows
    .map((row) => ({ row, place: BigInt(textOf(row['place'])) }))
    .sort((a, b) => (a.place < b.place ? -1 : 1))
    .map(({ row, place }) => {
      const key = optionalTextOf(row['key'])
      if (key === undefined || textOf(row['scheduled']) === '1') return `[${place},1]`
      const name = `${textOf(row['shard'])}/${key}`
      const first = !seen.has(name)
      seen.add(name)
      return `[${place},${first ? 1 : 0}]`
    })
  return `[${places.join(',')}]`
}

function toDeadLetter(row: Row): DeadLetter {
  const text = (name: string): string | undefined => optionalTextOf(row[name])
  const [type, key, correlationId, by] = ['type', 'key', 'correlation_id', 'redriven_by'].map(text)
  return {
    id: textOf(row['id']),
    topic: textOf(row['topic']),
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
    contentType: textOf(row['content_type']),
    ...(correlationId !== undefined && { correlationId }),
    createdAt: dateOf(row['created_at']),
    deadAt: dateOf(row['dead_at']),
    attempts: Number(textOf(row['attempts'])),
    error: text('error') ?? '',
    ...(by !== undefined && { redriven: { at: dateOf(row['redriven_at']), by } }),
  }
}
