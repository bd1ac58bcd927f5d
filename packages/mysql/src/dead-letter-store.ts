import type { DeadLetter, DeadLetterFilter, DeadLetterStore } from '@txbox/core'
import { dateOf, type Row } from './backlog-message.ts'
import type { deadLetterStatementsByEngine } from './dead-letter-statements.ts'
import { fill, optionalTextOf, textOf } from './literals.ts'
import { runAlone, runTogether, type Source } from './run-alone.ts'
import type { Run } from './short-transaction.ts'

type Statements = ReturnType<typeof deadLetterStatementsByEngine>

/** The dead letters of MySQL and MariaDB. The contract is that of the port. */
export class MysqlDeadLetterStore implements DeadLetterStore {
  readonly #statements: Statements
  readonly #source: Source

  constructor(statements: Statements, source: Source) {
    this.#statements = statements
    this.#source = source
  }

  async list(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
    const sql = await this.#sql()
    const text = chosen(sql, sql.list, filter)
    const { rows } = await runAlone(this.#source, 'listing dead letters', text, [limit])
    return rows.map(toDeadLetter)
  }

  redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<readonly DeadLetter[]> {
    return this.#touch('redriving dead letters', filter, limit, async (sql, run, rows) => {
      const places = firstOfEachKey(rows)
      await run(sql.record, [by, places])
      await run(sql.redrive, [places])
    })
  }

  discard(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
    return this.#touch('discarding dead letters', filter, limit, (sql, run, rows) =>
      run(sql.discard, [firstOfEachKey(rows)]),
    )
  }

  /** Whoever else asks for them waits, and finds none. */
  async #touch(
    doing: string,
    filter: DeadLetterFilter,
    limit: number,
    work: (sql: Statements['mysql'], run: Run, rows: readonly Row[]) => Promise<unknown>,
  ): Promise<readonly DeadLetter[]> {
    const sql = await this.#sql()
    return runTogether(this.#source, doing, async (run) => {
      const rows: Row[] = []
      let { after } = filter
      // Fewer than asked for says that there are no more: those that somebody else has got are made up for.
      for (let more = true; more && rows.length < limit;) {
        const most = limit - rows.length
        const { rows: found } = await run(chosen(sql, sql.find, { ...filter, after }), [most])
        more = found.length === most
        if (found.length === 0) break
        after = textOf(found.at(-1)!['id'])
        const { rows: locked } = await run(sql.lock, [
          `[${found.map((row) => textOf(row['place'])).join(',')}]`,
        ])
        rows.push(...locked)
      }
      if (rows.length > 0) await work(sql, run, rows)
      return rows.map(toDeadLetter)
    })
  }

  async #sql(): Promise<Statements['mysql']> {
    return this.#statements[(await this.#source.server()).engine]
  }
}

/** A statement on those that match the filter. */
function chosen(
  sql: Statements['mysql'],
  text: string,
  { ids, topic, type, key, after }: DeadLetterFilter,
): string {
  const bytes = (value: string): Buffer => Buffer.from(value)
  const conditions = [
    // `IN ()` is no SQL. No id is empty.
    ...(ids === undefined ? [] : [fill(sql.ids, [['', ...ids].map(bytes)])]),
    ...(topic === undefined ? [] : [fill(sql.topic, [bytes(topic)])]),
    ...(type === undefined ? [] : [fill(sql.type, [bytes(type)])]),
    ...(key === undefined ? [] : [fill(sql.key, [bytes(key)])]),
    ...(after === undefined ? [] : [fill(sql.after, [bytes(after)])]),
  ]
  return text.replace('CHOSEN', () => conditions.join(''))
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
    createdAt: dateOf(textOf(row['created_at'])),
    deadAt: dateOf(textOf(row['dead_at'])),
    attempts: Number(textOf(row['attempts'])),
    error: text('error') ?? '',
    ...(by !== undefined && { redriven: { at: dateOf(textOf(row['redriven_at'])), by } }),
  }
}
