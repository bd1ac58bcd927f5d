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
import type { inspectionStatements } from './inspection-statements.ts'
import { checkRevision } from './schema-revision.ts'
import { serverFindings } from './server-findings.ts'

/** Whoever looks at a screen wants an answer, or an error. */
const STATEMENT_TIMEOUT_MS = 15_000

/** Counting goes on to here. */
const COUNT_LIMIT = 1_000_000

/** The same for what is asked again and again. */
const LAG_COUNT_LIMIT = 100_000

type Row = Readonly<Record<string, unknown>>

/** Figures of PostgreSQL. The contract is that of the port. */
export class PostgresInspectionStore implements InspectionStore {
  readonly #sql: ReturnType<typeof inspectionStatements>
  readonly #source: { readonly root: RootAdapter; readonly db: unknown; readonly schema: string }
  #asked: Promise<void> | undefined

  constructor(
    statements: ReturnType<typeof inspectionStatements>,
    source: { readonly root: RootAdapter; readonly db: unknown; readonly schema: string },
  ) {
    this.#sql = statements
    this.#source = source
  }

  async status(): Promise<StatusFigures> {
    const doing = 'reading the figures'
    const [figures] = await this.#run(doing, this.#sql.figures, [COUNT_LIMIT])
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
        name: row['name'] as string,
        owner: row['owner'] as string,
        term: BigInt(row['term'] as string),
        remainingMs: Number(row['remaining_ms']),
      })),
      claims: Number(figures?.['claims']),
      expired: count('expired'),
      inboxBytes: Number(figures?.['inbox_bytes']),
      lastCollection: last && {
        finishedAt: new Date(Number(last['finished_at'])),
        inbox: Number(last['inbox']),
        deadLetters: Number(last['dead_letters']),
        durationMs: Number(last['duration_ms']),
      },
    }
  }

  async lag(): Promise<Lag> {
    const [row] = await this.#run('reading the backlog', this.#sql.lag, [LAG_COUNT_LIMIT])
    return { backlog: bounded(row?.['backlog'], LAG_COUNT_LIMIT), oldestMs: ageIn(row) }
  }

  async answers(withinMs: number): Promise<void> {
    const { root, db, schema } = this.#source
    // A late query still waits for its connection: no other query is sent before it has ended.
    this.#asked ??= checkRevision((text, values) => root.query(db, text, values, withinMs), schema).finally(
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
    const retention = Number.isFinite(deadLetterRetentionMs) ? deadLetterRetentionMs : null
    const [row] = await this.#run('counting', this.#sql.collectable, [COUNT_LIMIT, retention])
    return { inbox: bounded(row?.['inbox']), deadLetters: bounded(row?.['dead_letters']) }
  }

  async blockingKeys(limit: number): Promise<readonly BlockingKey[]> {
    const rows = await this.#run('reading the blocked keys', this.#sql.blockingKeys, [limit])
    return rows.map((row) => ({
      key: row['key'] as string,
      topic: row['topic'] as string,
      id: row['id'] as string,
      attempts: Number(row['attempts']),
      waiting: Number(row['waiting']),
      error: (row['error'] as string | null) ?? undefined,
    }))
  }

  diagnose({ longTransactionMs }: { readonly longTransactionMs: number }): Promise<readonly Finding[]> {
    const run = (text: string, values: readonly unknown[]): Promise<readonly Row[]> =>
      this.#run('looking at the server', text, values)
    return serverFindings(run, this.#sql, { schema: this.#source.schema, longTransactionMs })
  }

  async #run(doing: string, text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    const { root, db } = this.#source
    try {
      return (await root.query(db, text, values, STATEMENT_TIMEOUT_MS)).rows
    } catch (error) {
      throw translate(error, doing)
    }
  }
}

function bounded(value: unknown, limit = COUNT_LIMIT): BoundedCount {
  const count = Number(value)
  return { count, atLeast: count === limit }
}

function ageIn(row: Row | undefined): number | undefined {
  const oldest = row?.['oldest_ms'] as string | null | undefined
  return oldest === null || oldest === undefined ? undefined : Math.max(0, Number(oldest))
}
