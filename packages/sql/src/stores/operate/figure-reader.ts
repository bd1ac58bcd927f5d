import type { BoundedCount, Finding, ParkedFigures } from '@txbox/core/ports'
import { SchemaError } from '@txbox/core'
import type { DatabaseErrors } from '../../errors/database-errors.ts'
import type { Row, RowReader } from '../row-reader.ts'
import type { InspectedLocal } from './local-inspection.ts'

/** Short, because a user waits for the answer or the error. */
export const STATEMENT_TIMEOUT_MS = 15_000

/** The number at which counts stop. */
export const COUNT_LIMIT = 1_000_000

export type RunInspection<V> = (text: string, values?: readonly V[]) => Promise<readonly Row[]>

/** What the store of figures and findings asks of a database. `V` is the type of the values of its statements. */
export interface InspectedDatabase<V> {
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
  readonly serverFindings: (run: RunInspection<V>) => Promise<readonly Finding[]>
  /** Returns the findings about tables of the right revision. */
  readonly tableFindings: (run: RunInspection<V>, longTransactionMs: number) => Promise<readonly Finding[]>
}

/** Runs the statements that read figures, and reads counts and ages from their rows. */
export class FigureReader<V> {
  readonly #database: InspectedDatabase<V | number>

  constructor(database: InspectedDatabase<V | number>) {
    this.#database = database
  }

  async run(doing: string, text: string, values: readonly (V | number)[] = []): Promise<readonly Row[]> {
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

  bounded(row: Row | undefined, name: string, limit = COUNT_LIMIT): BoundedCount {
    const count = this.#database.read.number(row, name)
    return { count, atLeast: count === limit }
  }

  /** Reads the counts of parked messages: the statement examines at most `limit` messages that are due, and counts later ones. */
  parkedIn(row: Row | undefined, limit = COUNT_LIMIT): ParkedFigures {
    const count = (name: string): number => this.#database.read.number(row, name)
    const [refused, behind, examined, later] = [
      count('refused'),
      count('behind'),
      count('examined'),
      count('later'),
    ]
    const atLeast = examined === limit
    return {
      parked: { count: refused + behind, atLeast },
      refused: { count: refused, atLeast },
      behind: { count: behind, atLeast },
      scheduled: { count: examined - refused - behind + later, atLeast: atLeast || later === limit },
    }
  }

  ageIn(row: Row | undefined): number | undefined {
    const oldest = this.#database.read.optionalText(row, 'oldest_ms')
    return oldest === undefined ? undefined : Math.max(0, Number(oldest))
  }
}
