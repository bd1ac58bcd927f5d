import type { BoundedCount, LocalConsumerFigures, OldestDue, ParkedFigures } from '@txbox/core/ports'
import type { Row, RowReader } from '../row-reader.ts'

/** The maximum number of local consumers among which the message is sought that has been due the longest. */
const CONSUMER_LIMIT = 1000

/** `V` is the type of the values of its statements. */
export interface InspectedLocal<V> {
  readonly sql: Readonly<
    Record<
      'nextLocal' | 'localFigures' | 'localTypes' | 'unhandledTypes' | 'oldestInLocal' | 'leases',
      string
    >
  >
  readonly read: RowReader
  readonly consumerValue: (consumer: string) => V
  readonly nextLocalValues: (consumer: string) => readonly V[]
  readonly localFiguresValues: (consumer: string, limit: number) => readonly V[]
  readonly oldestInLocalValues: (consumer: string) => readonly V[]
  readonly run: (doing: string, text: string, values?: readonly V[]) => Promise<readonly Row[]>
  readonly bounded: (row: Row | undefined, name: string) => BoundedCount
  readonly parkedIn: (row: Row | undefined) => ParkedFigures
  readonly ageIn: (row: Row | undefined) => number | undefined
  readonly oldestDue: (row: Row | undefined) => OldestDue | undefined
}

/** The figures of the local consumers. Each statement is about one consumer, because its indexes begin with the consumer. */
export class LocalInspection<V> {
  readonly #database: InspectedLocal<V>
  readonly #countLimit: number

  constructor(database: InspectedLocal<V>, countLimit: number) {
    this.#database = database
    this.#countLimit = countLimit
  }

  async consumers(limit: number): Promise<readonly LocalConsumerFigures[]> {
    const { sql, read, run, bounded, parkedIn, ageIn, consumerValue, localFiguresValues } = this.#database
    const doing = 'reading the figures of local consumers'
    const running = await this.#running()
    const all: LocalConsumerFigures[] = []
    for await (const name of this.#names()) {
      if (all.length === limit) break
      const [row] = await run(doing, sql.localFigures, localFiguresValues(name, this.#countLimit))
      const ofConsumer = [consumerValue(name)]
      const types = await run(doing, sql.localTypes, ofConsumer)
      const unhandled = await run(doing, sql.unhandledTypes, ofConsumer)
      all.push({
        name,
        types: types.map((each) => read.text(each, 'type')),
        waiting: bounded(row, 'waiting'),
        oldestMs: ageIn(row),
        ...parkedIn(row),
        dead: bounded(row, 'dead'),
        unhandled: unhandled.map((each) => read.text(each, 'type')),
        runsNow: running.has(name),
        oldestDue: await this.#oldestOf(name),
      })
    }
    return all
  }

  /** The message of all local consumers that has been due the longest. */
  async oldestDue(): Promise<OldestDue | undefined> {
    let oldest: OldestDue | undefined
    let consumers = 0
    for await (const name of this.#names()) {
      if ((consumers += 1) > CONSUMER_LIMIT) break
      const other = await this.#oldestOf(name)
      if (oldest === undefined || (other !== undefined && other.ageMs > oldest.ageMs)) oldest = other
    }
    return oldest
  }

  async #oldestOf(name: string): Promise<OldestDue | undefined> {
    const { sql, run, oldestDue, oldestInLocalValues } = this.#database
    const doing = 'looking for the message that has been due the longest'
    const [row] = await run(doing, sql.oldestInLocal, oldestInLocalValues(name))
    const oldest = oldestDue(row)
    return oldest && { ...oldest, consumer: name }
  }

  /** The consumers that have messages, dead letters or subscriptions, ordered by name. */
  async *#names(): AsyncGenerator<string> {
    const { sql, read, run, nextLocalValues } = this.#database
    for (let name: string | undefined = ''; ;) {
      const [next] = await run('looking for local consumers', sql.nextLocal, nextLocalValues(name))
      if (next === undefined || !read.has(next, 'consumer')) return
      name = read.key(next, 'consumer')
      yield name
    }
  }

  /**
   * The consumers that some process runs. Each process has a row of its own, named after the consumer and the owner: names of
   * consumers may contain slashes, so only the whole name says whose row it is.
   */
  async #running(): Promise<ReadonlySet<string>> {
    const { sql, read, run } = this.#database
    const rows = await run('looking for processes that run local consumers', sql.leases)
    const running = new Set<string>()
    for (const row of rows) {
      const name = read.key(row, 'name')
      const end = `/${read.key(row, 'owner')}`
      if (!name.startsWith(MEMBER) || !name.endsWith(end) || read.number(row, 'remaining_ms') <= 0) continue
      running.add(name.slice(MEMBER.length, -end.length))
    }
    return running
  }
}

const MEMBER = 'local-member/'
