import type {
  BlockingKey,
  BoundedCount,
  CollectableFigures,
  Finding,
  InspectionStore,
  Lag,
  LocalConsumerFigures,
  OldestDue,
  QueueFigures,
  StatusFigures,
  StuckKey,
} from '@txbox/core/ports'
import { allowedFindings, within } from '@txbox/core/internal'
import type { Row } from '../row-reader.ts'
import { startOnPool } from '../../transactions/pool-waits.ts'
import { translatingErrors } from '../../errors/database-errors.ts'
import {
  COUNT_LIMIT,
  FigureReader,
  STATEMENT_TIMEOUT_MS,
  type InspectedDatabase,
  type RunInspection,
} from './figure-reader.ts'
import { orDropped, revisionFinding } from './findings.ts'
import { LocalInspection } from './local-inspection.ts'
import { QueueInspection } from './queue-inspection.ts'

/** Fewer claims than this are counted; the server estimates the number of more. */
export const EXACT_CLAIMS = 10_000

/** The number at which counts stop in queries that run often, or for each of many consumers. */
const LAG_COUNT_LIMIT = 100_000

export class SqlInspectionStore<V> implements InspectionStore {
  readonly #database: InspectedDatabase<V | number>
  readonly #local: LocalInspection<V | number>
  readonly #figures: FigureReader<V>
  readonly #queues: QueueInspection<V>
  #asked: ReturnType<typeof startOnPool> | undefined

  constructor(database: InspectedDatabase<V | number>) {
    this.#database = database
    this.#figures = new FigureReader(database)
    this.#queues = new QueueInspection(database, this.#figures)
    this.#local = new LocalInspection(
      {
        ...database,
        run: (doing, text, values) => this.#figures.run(doing, text, values),
        bounded: (row, name) => this.#figures.bounded(row, name, LAG_COUNT_LIMIT),
        parkedIn: (row) => this.#figures.parkedIn(row, LAG_COUNT_LIMIT),
        ageIn: (row) => this.#figures.ageIn(row),
        oldestDue: (row) => this.#toOldestDue(row),
      },
      LAG_COUNT_LIMIT,
    )
  }

  async status(countLimit = COUNT_LIMIT): Promise<StatusFigures> {
    const { sql, read, figuresValues } = this.#database
    const doing = 'reading the figures'
    const [figures] = await this.#figures.run(doing, sql.figures, figuresValues(countLimit))
    const leases = await this.#figures.run(doing, sql.leases)
    const [last] = await this.#figures.run(doing, sql.lastCollection)
    const count = (name: string): BoundedCount => this.#figures.bounded(figures, name, countLimit)
    const estimate = (name: string): number => Number(read.optionalText(figures, name) ?? 0)
    const counted = read.number(figures, 'counted_claims')
    const claimsAreExact = counted < EXACT_CLAIMS
    return {
      oldestDue: oldestOf([await this.#oldestDue(sql.oldestInOutbox), ...(await this.oldestOutsideOutbox())]),
      backlog: count('backlog'),
      oldestMs: this.#figures.ageIn(figures),
      ...this.#figures.parkedIn(figures, countLimit),
      dead: count('dead'),
      leases: leases.map((row) => ({
        name: read.key(row, 'name'),
        owner: read.key(row, 'owner'),
        term: read.bigint(row, 'term'),
        remainingMs: read.number(row, 'remaining_ms'),
      })),
      claims: claimsAreExact ? counted : Math.max(counted, estimate('claims')),
      claimsAreExact,
      expired: count('expired'),
      inboxBytes: estimate('inbox_bytes'),
      lastCollection: last && {
        finishedAt: new Date(read.number(last, 'finished_at')),
        inbox: read.number(last, 'inbox'),
        deadLetters: read.number(last, 'dead_letters'),
        durationMs: read.number(last, 'duration_ms'),
      },
    }
  }

  async oldestOutsideOutbox(): Promise<readonly OldestDue[]> {
    const ofQueues = await this.#oldestDue(this.#database.sql.oldestInQueues)
    const ofConsumers = await this.#local.oldestDue()
    return [ofQueues, ofConsumers].filter((found) => found !== undefined)
  }

  localConsumers(limit: number): Promise<readonly LocalConsumerFigures[]> {
    return this.#local.consumers(limit)
  }

  hasQueue(name: string): Promise<boolean> {
    return this.#queues.has(name)
  }

  queues(limit: number): Promise<readonly QueueFigures[]> {
    return this.#queues.figures(limit)
  }

  stuckKeys(limit: number): Promise<{ readonly keys: readonly StuckKey[]; readonly examined: BoundedCount }> {
    return this.#queues.stuckKeys(limit)
  }

  async lag(): Promise<Lag> {
    const { sql, lagValues } = this.#database
    const [row] = await this.#figures.run('reading the backlog', sql.lag, lagValues(LAG_COUNT_LIMIT))
    return {
      backlog: this.#figures.bounded(row, 'backlog', LAG_COUNT_LIMIT),
      oldestMs: this.#figures.ageIn(row),
      parked: this.#figures.bounded(row, 'parked', LAG_COUNT_LIMIT),
      oldestDue: await this.#oldestDue(sql.oldestInOutbox),
    }
  }

  async answers(withinMs: number): Promise<void> {
    // A late query still waits for its connection, so no further query is sent before it has ended.
    this.#asked ??= startOnPool(() =>
      this.#database.checkRevision(withinMs).finally(() => (this.#asked = undefined)),
    )
    const { running, late } = this.#asked
    await translatingErrors(this.#database.errors, 'checking whether the database answers', () =>
      within(running, withinMs, late),
    )
  }

  async collectable(deadLetterRetentionMs: number): Promise<CollectableFigures> {
    const { sql, collectableValues } = this.#database
    const retentionMs = Number.isFinite(deadLetterRetentionMs) ? deadLetterRetentionMs : null
    const [row] = await this.#figures.run(
      'counting',
      sql.collectable,
      collectableValues(COUNT_LIMIT, retentionMs),
    )
    return {
      inbox: this.#figures.bounded(row, 'inbox'),
      deadLetters: this.#figures.bounded(row, 'dead_letters'),
      redrives: this.#figures.bounded(row, 'redrives'),
      bufferedDeadLetters: this.#figures.bounded(row, 'buffered_dead_letters'),
      handled: await this.#queues.handled(),
    }
  }

  async blockingKeys(limit: number): Promise<readonly BlockingKey[]> {
    const { sql, read } = this.#database
    const rows = await this.#figures.run('reading the blocked keys', sql.blockingKeys, [limit])
    return rows.map((row) => ({
      key: read.key(row, 'key'),
      topic: read.text(row, 'topic'),
      id: read.key(row, 'id'),
      attempts: read.number(row, 'attempts'),
      waiting: read.number(row, 'waiting'),
      error: read.optionalText(row, 'error'),
    }))
  }

  async blockedKeys(): Promise<BoundedCount> {
    const { sql, read } = this.#database
    const [row] = await this.#figures.run('counting the blocked keys', sql.blockedKeys, [LAG_COUNT_LIMIT])
    return { count: read.number(row, 'blocked'), atLeast: read.number(row, 'messages') === LAG_COUNT_LIMIT }
  }

  async diagnose({ longTransactionMs }: { readonly longTransactionMs: number }): Promise<readonly Finding[]> {
    const { errors, serverFindings, tableFindings } = this.#database
    const doing = 'checking the server'
    const run: RunInspection<V | number> = (text, values) => this.#figures.run(doing, text, values)
    const server = await serverFindings(run)
    const revision = await allowedFindings('revision', async () => [
      await revisionFinding(() =>
        translatingErrors(errors, doing, () => this.#database.checkRevision(STATEMENT_TIMEOUT_MS)),
      ),
    ])
    if (revision.some(({ verdict }) => verdict === 'problem')) return [...server, ...revision]
    const tables = await allowedFindings('tables', () =>
      orDropped(async () => {
        await this.lag()
        return tableFindings(run, longTransactionMs)
      }),
    )
    return [...server, ...revision, ...tables]
  }

  async #oldestDue(statement: string): Promise<OldestDue | undefined> {
    const [row] = await this.#figures.run('looking for the message that has been due the longest', statement)
    return this.#toOldestDue(row)
  }

  #toOldestDue(row: Row | undefined): OldestDue | undefined {
    if (row === undefined) return undefined
    const { read } = this.#database
    const topic = read.optionalText(row, 'topic')
    return {
      ageMs: Math.max(0, read.number(row, 'age_ms')),
      in: read.text(row, 'part') as OldestDue['in'],
      id: read.key(row, 'id'),
      ...(topic !== undefined && { topic }),
    }
  }
}

/** Of several equally old ones the first. */
function oldestOf(found: readonly (OldestDue | undefined)[]): OldestDue | undefined {
  return found.filter((each) => each !== undefined).toSorted((a, b) => b.ageMs - a.ageMs)[0]
}
