import {
  answerWithin,
  type BlockingKey,
  type BoundedCount,
  type Finding,
  type InspectionStore,
  type Lag,
  type StatusFigures,
} from '@txbox/core'
import type { RootAdapter } from '@txbox/sql'
import { translate } from './errors.ts'
import type { Tables } from './identifiers.ts'
import type { inspectionStatements } from './inspection-statements.ts'
import { fill, optionalTextOf, textOf, type Value } from './literals.ts'
import { checkRevision } from './schema-revision.ts'
import { serverFindings } from './server-findings.ts'

/** Whoever looks at a screen wants an answer, or an error. */
const STATEMENT_TIMEOUT_MS = 15_000

/** Counting goes on to here. */
const COUNT_LIMIT = 1_000_000

/** The same for what is asked again and again. */
const LAG_COUNT_LIMIT = 100_000

/** The counts of `figures`, each with a limit of its own. */
const COUNTS = 5

type Row = Readonly<Record<string, unknown>>

interface Source {
  readonly root: RootAdapter
  readonly db: unknown
  readonly tables: Tables
}

/** Figures of MySQL and MariaDB. The contract is that of the port. */
export class MysqlInspectionStore implements InspectionStore {
  readonly #sql: ReturnType<typeof inspectionStatements>
  readonly #source: Source
  #asked: Promise<unknown> | undefined

  constructor(statements: ReturnType<typeof inspectionStatements>, source: Source) {
    this.#sql = statements
    this.#source = source
  }

  async status(): Promise<StatusFigures> {
    const doing = 'reading the figures'
    const limits = Array.from({ length: COUNTS }, () => COUNT_LIMIT)
    const [figures] = await this.#run(doing, this.#sql.figures, limits)
    const leases = await this.#run(doing, this.#sql.leases, [])
    const [last] = await this.#run(doing, this.#sql.lastCollection, [])
    const count = (name: string): BoundedCount => bounded(figures?.[name])
    return {
      backlog: count('backlog'),
      oldestMs: ageIn(figures),
      parked: count('parked'),
      scheduled: count('scheduled'),
      dead: count('dead'),
      leases: leases.map((row) => ({
        name: fromHex(row['name']),
        owner: fromHex(row['owner']),
        term: BigInt(textOf(row['term'])),
        remainingMs: Number(textOf(row['remaining_ms'])),
      })),
      claims: Number(optionalTextOf(figures?.['claims']) ?? 0),
      expired: count('expired'),
      inboxBytes: Number(optionalTextOf(figures?.['inbox_bytes']) ?? 0),
      lastCollection: last && {
        finishedAt: new Date(Number(textOf(last['finished_at']))),
        inbox: Number(textOf(last['inbox'])),
        deadLetters: Number(textOf(last['dead_letters'])),
        durationMs: Number(textOf(last['duration_ms'])),
      },
    }
  }

  async lag(): Promise<Lag> {
    const [row] = await this.#run('reading the backlog', this.#sql.lag, [LAG_COUNT_LIMIT])
    return { backlog: bounded(row?.['backlog'], LAG_COUNT_LIMIT), oldestMs: ageIn(row) }
  }

  async answers(withinMs: number): Promise<void> {
    const { root, db, tables } = this.#source
    // A late query still waits for its connection: no other query is sent before it has ended.
    this.#asked ??= checkRevision((text) => root.query(db, text, [], withinMs), tables).finally(
      () => (this.#asked = undefined),
    )
    try {
      await answerWithin(withinMs, this.#asked)
    } catch (error) {
      throw translate(error, 'asking whether the database answers')
    }
  }

  async collectable(
    deadLetterRetentionMs: number,
  ): Promise<{ readonly inbox: BoundedCount; readonly deadLetters: BoundedCount }> {
    const retention = Number.isFinite(deadLetterRetentionMs) ? Math.round(deadLetterRetentionMs * 1000) : null
    const [row] = await this.#run('counting', this.#sql.collectable, [COUNT_LIMIT, retention, COUNT_LIMIT])
    return { inbox: bounded(row?.['inbox']), deadLetters: bounded(row?.['dead_letters']) }
  }

  async blockingKeys(limit: number): Promise<readonly BlockingKey[]> {
    const rows = await this.#run('reading the blocked keys', this.#sql.blockingKeys, [limit])
    return rows.map((row) => ({
      key: fromHex(row['key']),
      topic: textOf(row['topic']),
      id: fromHex(row['id']),
      attempts: Number(textOf(row['attempts'])),
      waiting: Number(textOf(row['waiting'])),
      error: optionalTextOf(row['error']),
    }))
  }

  diagnose({ longTransactionMs }: { readonly longTransactionMs: number }): Promise<readonly Finding[]> {
    const run = (text: string, values: readonly Value[] = []): Promise<readonly Row[]> =>
      this.#run('looking at the server', text, values)
    return serverFindings(run, this.#sql, this.#source.tables, longTransactionMs)
  }

  async #run(doing: string, text: string, values: readonly Value[]): Promise<readonly Row[]> {
    const { root, db } = this.#source
    try {
      return (await root.query(db, fill(text, values), [], STATEMENT_TIMEOUT_MS)).rows
    } catch (error) {
      throw translate(error, doing)
    }
  }
}

function fromHex(value: unknown): string {
  return Buffer.from(textOf(value), 'hex').toString()
}

function bounded(value: unknown, limit = COUNT_LIMIT): BoundedCount {
  const count = Number(textOf(value))
  return { count, atLeast: count === limit }
}

function ageIn(row: Row | undefined): number | undefined {
  const oldest = optionalTextOf(row?.['oldest_ms'])
  return oldest === undefined ? undefined : Math.max(0, Number(oldest))
}
