import type { BoundedCount, QueueFigures, StuckKey } from '@txbox/core/ports'
import { SHARDS } from '@txbox/core/internal'
import { ALL_SHARDS, shardRow } from '../queue/queue-shards.ts'
import { COUNT_LIMIT, type FigureReader, type InspectedDatabase } from './figure-reader.ts'

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

/** The figures of stored queues, read queue by queue. */
export class QueueInspection<V> {
  readonly #database: InspectedDatabase<V | number>
  readonly #figures: FigureReader<V>

  constructor(database: InspectedDatabase<V | number>, figures: FigureReader<V>) {
    this.#database = database
    this.#figures = figures
  }

  async has(name: string): Promise<boolean> {
    const { sql, read, hasQueueValues } = this.#database
    const locks = [...ALL_SHARDS, SHARDS].map((shard) => shardRow(name, shard))
    const [row] = await this.#figures.run('looking for a queue', sql.hasQueue, hasQueueValues(name, locks))
    return read.flag(row, 'there')
  }

  async figures(limit: number): Promise<readonly QueueFigures[]> {
    const { sql, queueFiguresValues } = this.#database
    const doing = 'reading the figures of queues'
    const queues: QueueFigures[] = []
    for (let name = await this.#nextQueue(''); name !== undefined; name = await this.#nextQueue(name)) {
      if (queues.length === limit) return queues
      const [row] = await this.#figures.run(doing, sql.queueFigures, queueFiguresValues(name, COUNT_LIMIT))
      queues.push({
        name,
        due: this.#figures.bounded(row, 'due'),
        oldestMs: this.#figures.ageIn(row),
        waiting: this.#figures.bounded(row, 'waiting'),
        delayed: this.#figures.bounded(row, 'later'),
        inFlight: this.#figures.bounded(row, 'in_flight'),
        dead: this.#figures.bounded(row, 'dead'),
      })
    }
    return queues
  }

  async stuckKeys(
    limit: number,
  ): Promise<{ readonly keys: readonly StuckKey[]; readonly examined: BoundedCount }> {
    const { sql, read, keyEndsValues } = this.#database
    const doing = 'looking for stuck keys'
    const rows = await this.#figures.run(doing, sql.firstOfKeys, [KEY_LIMIT, WAITING_KEY_LIMIT])
    const keys: StuckKey[] = []
    for (const row of rows.filter((each) => read.flag(each, 'waits'))) {
      if (keys.length === limit) break
      const [queue, key] = [read.key(row, 'topic'), read.key(row, 'order_key')]
      // The key is examined by one statement, which sees the whole key at one moment: a receiver may have released the
      // key since the first query.
      const values = keyEndsValues(queue, read.number(row, 'shard'), key)
      const [ends] = await this.#figures.run(doing, sql.keyEnds, values)
      const waiting = this.#figures.bounded(ends, 'waiting', KEY_ENDS)
      if (waiting.count === 0 || read.flag(ends, 'goes_on')) continue
      keys.push({ queue, key, id: read.key(row, 'id'), waiting })
    }
    const none = { count: 0, atLeast: false }
    return {
      keys,
      examined: rows.length === 0 ? none : this.#figures.bounded(rows[0], 'examined', KEY_LIMIT),
    }
  }

  /** Counts the rows of handled messages queue by queue, because the index of these rows begins with the queue. */
  async handled(): Promise<BoundedCount> {
    const { sql, queueValue } = this.#database
    let count = 0
    let queue = await this.#nextQueue('')
    for (let queues = 0; queue !== undefined; queues += 1, queue = await this.#nextQueue(queue)) {
      if (queues === QUEUE_LIMIT || count >= COUNT_LIMIT) return { count, atLeast: true }
      const values = [queueValue(queue), COUNT_LIMIT]
      const [row] = await this.#figures.run('counting', sql.handled, values)
      count += this.#figures.bounded(row, 'handled').count
    }
    return { count, atLeast: count >= COUNT_LIMIT }
  }

  /** Returns the first queue after this name that has messages or dead letters. */
  async #nextQueue(name: string): Promise<string | undefined> {
    const { sql, read, queueValue } = this.#database
    const [next] = await this.#figures.run('looking for queues', sql.nextQueue, [queueValue(name)])
    return next === undefined || next['topic'] === null ? undefined : read.key(next, 'topic')
  }
}
