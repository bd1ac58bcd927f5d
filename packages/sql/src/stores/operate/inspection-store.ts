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
import { SchemaError } from '@txbox/core'
import { SHARDS, allowedFindings, within } from '@txbox/core/internal'
import { startOnPool } from '../../transactions/pool-waits.ts'
import { translatingErrors, type DatabaseErrors } from '../../errors/database-errors.ts'
import { ALL_SHARDS, shardRow } from '../queue/queue-shards.ts'
import { orDropped, revisionFinding } from './findings.ts'
import { LocalInspection, type InspectedLocal } from './local-inspection.ts'
import type { Row, RowReader } from '../row-reader.ts'

/** Short, because a user waits for the answer or the error. */
const STATEMENT_TIMEOUT_MS = 15_000

/** The number at which counts stop. */
const COUNT_LIMIT = 1_000_000

/** Fewer claims than this are counted; the server estimates the number of more. */
export const EXACT_CLAIMS = 10_000

/** The number at which counts stop in queries that run often. */
const LAG_COUNT_LIMIT = 100_000

/** The maximum number of queues in which handled messages are counted. */
const QUEUE_LIMIT = 1000

/** The maximum number of keys that a search for stuck keys examines. */
const KEY_LIMIT = 20_000

/** The maximum number of keys with a waiting first message that the search examines more closely. Few are expected. */
const WAITING_KEY_LIMIT = 100

/**
 * The number of messages at each end of a key that are examined: if one of them does not wait, the key is not stuck.
 */
export const KEY_ENDS = 1000

type Run<V> = (text: string, values?: readonly V[]) => Promise<readonly Row[]>

/** `V` is the type of the values of its statements. */
interface InspectedDatabase<V> {
  readonly sql: Readonly<
    Record<
      | 'figures'
      | 'nextQueue'
      | 'queueFigures'
      | 'hasQueue'
      | 'firstOfKeys'
      | 'keyEnds'
      | 'leases'
      | 'lastCollection'
      | 'lag'
      | 'oldestInOutbox'
      | 'oldestInQueues'
      | 'collectable'
      | 'handled'
      | 'blockingKeys'
      | 'blockedKeys',
      string
    >
  > &
    InspectedLocal<V>['sql']
  readonly consumerValue: (consumer: string) => V
  readonly nextLocalValues: (consumer: string) => readonly V[]
  readonly localFiguresValues: (consumer: string, limit: number) => readonly V[]
  readonly oldestInLocalValues: (consumer: string) => readonly V[]
  readonly read: RowReader
  readonly errors: DatabaseErrors
  readonly figuresValues: (limit: number) => readonly V[]
  readonly lagValues: (limit: number) => readonly V[]
  readonly queueValue: (queue: string) => V
  readonly hasQueueValues: (queue: string, locks: readonly string[]) => readonly V[]
  readonly queueFiguresValues: (queue: string, limit: number) => readonly V[]
  readonly keyEndsValues: (queue: string, shard: number, key: string) => readonly V[]
  /** A retention of null keeps dead letters forever. */
  readonly collectableValues: (limit: number, retentionMs: number | null) => readonly V[]
  query(text: string, values: readonly V[], timeoutMs: number): Promise<{ readonly rows: readonly Row[] }>
  /** @throws {SchemaError} when the tables have another revision. */
  checkRevision(timeoutMs: number): Promise<unknown>
  readonly serverFindings: (run: Run<V>) => Promise<readonly Finding[]>
  /** Returns the findings about tables of the right revision. */
  readonly tableFindings: (run: Run<V>, longTransactionMs: number) => Promise<readonly Finding[]>
}

export class SqlInspectionStore<V> implements InspectionStore {
  readonly #database: InspectedDatabase<V | number>
  readonly #local: LocalInspection<V | number>
  #asked: ReturnType<typeof startOnPool> | undefined

  constructor(database: InspectedDatabase<V | number>) {
    this.#database = database
    this.#local = new LocalInspection(
      {
        ...database,
        run: (doing, text, values) => this.#run(doing, text, values),
        bounded: (row, name) => this.#bounded(row, name),
        oldestDue: (row) => this.#toOldestDue(row),
      },
      COUNT_LIMIT,
    )
  }

  async status(): Promise<StatusFigures> {
    const { sql, read, figuresValues } = this.#database
    const doing = 'reading the figures'
    const [figures] = await this.#run(doing, sql.figures, figuresValues(COUNT_LIMIT))
    const leases = await this.#run(doing, sql.leases)
    const [last] = await this.#run(doing, sql.lastCollection)
    const count = (name: string): BoundedCount => this.#bounded(figures, name)
    const estimate = (name: string): number => Number(read.optionalText(figures, name) ?? 0)
    const counted = read.number(figures, 'counted_claims')
    const claimsAreExact = counted < EXACT_CLAIMS
    return {
      oldestDue: older(
        older(await this.#oldestDue(sql.oldestInOutbox), await this.#oldestDue(sql.oldestInQueues)),
        await this.#local.oldestDue(),
      ),
      backlog: count('backlog'),
      oldestMs: this.#ageIn(figures),
      parked: count('parked'),
      scheduled: count('scheduled'),
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

  localConsumers(limit: number): Promise<readonly LocalConsumerFigures[]> {
    return this.#local.consumers(limit)
  }

  async hasQueue(name: string): Promise<boolean> {
    const { sql, read, hasQueueValues } = this.#database
    const locks = [...ALL_SHARDS, SHARDS].map((shard) => shardRow(name, shard))
    const [row] = await this.#run('looking for a queue', sql.hasQueue, hasQueueValues(name, locks))
    return read.flag(row, 'there')
  }

  async queues(limit: number): Promise<readonly QueueFigures[]> {
    const { sql, queueFiguresValues } = this.#database
    const doing = 'reading the figures of queues'
    const queues: QueueFigures[] = []
    for (let name = await this.#nextQueue(''); name !== undefined; name = await this.#nextQueue(name)) {
      if (queues.length === limit) return queues
      const [row] = await this.#run(doing, sql.queueFigures, queueFiguresValues(name, COUNT_LIMIT))
      queues.push({
        name,
        due: this.#bounded(row, 'due'),
        oldestMs: this.#ageIn(row),
        waiting: this.#bounded(row, 'waiting'),
        delayed: this.#bounded(row, 'later'),
        inFlight: this.#bounded(row, 'in_flight'),
        dead: this.#bounded(row, 'dead'),
      })
    }
    return queues
  }

  async stuckKeys(
    limit: number,
  ): Promise<{ readonly keys: readonly StuckKey[]; readonly examined: BoundedCount }> {
    const { sql, read, keyEndsValues } = this.#database
    const doing = 'looking for stuck keys'
    const rows = await this.#run(doing, sql.firstOfKeys, [KEY_LIMIT, WAITING_KEY_LIMIT])
    const keys: StuckKey[] = []
    for (const row of rows.filter((each) => read.flag(each, 'waits'))) {
      if (keys.length === limit) break
      const [queue, key] = [read.key(row, 'topic'), read.key(row, 'order_key')]
      // The key is examined by one statement, which sees the whole key at one moment: a receiver may have released the
      // key since the first query.
      const values = keyEndsValues(queue, read.number(row, 'shard'), key)
      const [ends] = await this.#run(doing, sql.keyEnds, values)
      const waiting = this.#bounded(ends, 'waiting', KEY_ENDS)
      if (waiting.count === 0 || read.flag(ends, 'goes_on')) continue
      keys.push({ queue, key, id: read.key(row, 'id'), waiting })
    }
    const none = { count: 0, atLeast: false }
    return { keys, examined: rows.length === 0 ? none : this.#bounded(rows[0], 'examined', KEY_LIMIT) }
  }

  async lag(): Promise<Lag> {
    const { sql, lagValues } = this.#database
    const [row] = await this.#run('reading the backlog', sql.lag, lagValues(LAG_COUNT_LIMIT))
    return {
      backlog: this.#bounded(row, 'backlog', LAG_COUNT_LIMIT),
      oldestMs: this.#ageIn(row),
      parked: this.#bounded(row, 'parked', LAG_COUNT_LIMIT),
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
    const [row] = await this.#run('counting', sql.collectable, collectableValues(COUNT_LIMIT, retentionMs))
    return {
      inbox: this.#bounded(row, 'inbox'),
      deadLetters: this.#bounded(row, 'dead_letters'),
      redrives: this.#bounded(row, 'redrives'),
      bufferedDeadLetters: this.#bounded(row, 'buffered_dead_letters'),
      handled: await this.#handled(),
    }
  }

  /** Counts the rows of handled messages queue by queue, because the index of these rows begins with the queue. */
  async #handled(): Promise<BoundedCount> {
    const { sql, queueValue } = this.#database
    let count = 0
    let queue = await this.#nextQueue('')
    for (let queues = 0; queue !== undefined; queues += 1, queue = await this.#nextQueue(queue)) {
      if (queues === QUEUE_LIMIT || count >= COUNT_LIMIT) return { count, atLeast: true }
      const values = [queueValue(queue), COUNT_LIMIT]
      const [row] = await this.#run('counting', sql.handled, values)
      count += this.#bounded(row, 'handled').count
    }
    return { count, atLeast: count >= COUNT_LIMIT }
  }

  /** Returns the first queue after this name that has messages or dead letters. */
  async #nextQueue(name: string): Promise<string | undefined> {
    const { sql, read, queueValue } = this.#database
    const [next] = await this.#run('looking for queues', sql.nextQueue, [queueValue(name)])
    return next === undefined || next['topic'] === null ? undefined : read.key(next, 'topic')
  }

  async blockingKeys(limit: number): Promise<readonly BlockingKey[]> {
    const { sql, read } = this.#database
    const rows = await this.#run('reading the blocked keys', sql.blockingKeys, [limit])
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
    const [row] = await this.#run('counting the blocked keys', sql.blockedKeys, [LAG_COUNT_LIMIT])
    return { count: read.number(row, 'blocked'), atLeast: read.number(row, 'messages') === LAG_COUNT_LIMIT }
  }

  async diagnose({ longTransactionMs }: { readonly longTransactionMs: number }): Promise<readonly Finding[]> {
    const { errors, serverFindings, tableFindings } = this.#database
    const doing = 'checking the server'
    const run: Run<V | number> = (text, values) => this.#run(doing, text, values)
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

  async #run(doing: string, text: string, values: readonly (V | number)[] = []): Promise<readonly Row[]> {
    const { errors } = this.#database
    const query = (): ReturnType<InspectedDatabase<V>['query']> =>
      this.#database.query(text, values, STATEMENT_TIMEOUT_MS)
    try {
      return (await query()).rows
    } catch (error) {
      const translated = errors.translate(error, doing)
      if (!(translated instanceof SchemaError)) throw translated
      // If the table of migrations is left, the error says that the tables were dropped.
      await this.#database.checkRevision(STATEMENT_TIMEOUT_MS).catch(() => undefined)
      throw errors.translate(error, doing)
    }
  }

  async #oldestDue(statement: string): Promise<OldestDue | undefined> {
    const [row] = await this.#run('looking for the message that has been due the longest', statement)
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

  #bounded(row: Row | undefined, name: string, limit = COUNT_LIMIT): BoundedCount {
    const count = this.#database.read.number(row, name)
    return { count, atLeast: count === limit }
  }

  #ageIn(row: Row | undefined): number | undefined {
    const oldest = this.#database.read.optionalText(row, 'oldest_ms')
    return oldest === undefined ? undefined : Math.max(0, Number(oldest))
  }
}

function older(one: OldestDue | undefined, other: OldestDue | undefined): OldestDue | undefined {
  return one === undefined || (other !== undefined && other.ageMs > one.ageMs) ? other : one
}
