import { postgres, migrate } from '@txbox/postgres'
import { createQueue, type Queue } from '@txbox/queue'
import type { Pool } from 'pg'
import type { BenchDatabase } from './bench-database.ts'
import { percentile } from '../measure/statistics.ts'

const KEYS = 1000
const RECEIVES = 100

/** The medians of one round, in milliseconds. */
export interface ReceiveTimes {
  readonly emptyMs: number
  readonly blockedMs: number
}

/** How long a receive takes that finds nothing: in an empty queue, and with a million messages that wait behind 1000 keys. */
export class BlockedKeys {
  readonly #pool: Pool
  readonly #empty: Queue
  readonly #blocked: Queue

  private constructor(pool: Pool, empty: Queue, blocked: Queue) {
    this.#pool = pool
    this.#empty = empty
    this.#blocked = blocked
  }

  /** Fills the queue: the first message of each key is in flight, and the others wait. */
  static async create(database: BenchDatabase, messages: number): Promise<BlockedKeys> {
    const pool = database.pool({ max: 4 })
    const queues = []
    for (const schema of ['queue_empty', 'queue_blocked']) {
      await pool.query(`drop schema if exists ${schema} cascade`)
      await migrate(pool, { schema })
      queues.push(createQueue({ database: postgres({ db: pool, schema }), name: 'orders' }))
    }
    await pool.query(
      `insert into queue_blocked.queue (topic, shard, order_key, key, id, content_type, headers, payload, due_at, receipt, attempts)
       select 'orders', (n % ${KEYS}) % 16, 'key-' || n % ${KEYS}, 'key-' || n % ${KEYS}, 'id-' || n, 'application/json', '{}', '{}',
         case when n < ${KEYS} then clock_timestamp() + interval '1 hour' end,
         case when n < ${KEYS} then gen_random_uuid() end, case when n < ${KEYS} then 1 else 0 end
       from generate_series(0, $1::integer - 1) as n`,
      [messages],
    )
    await pool.query('vacuum analyze queue_blocked.queue')
    return new BlockedKeys(pool, queues[0]!, queues[1]!)
  }

  async measure(): Promise<ReceiveTimes> {
    const empty: number[] = []
    const blocked: number[] = []
    for (let n = 0; n < RECEIVES; n++) {
      empty.push(await timeOf(this.#empty))
      blocked.push(await timeOf(this.#blocked))
    }
    return { emptyMs: percentile(empty, 50), blockedMs: percentile(blocked, 50) }
  }

  async close(database: BenchDatabase): Promise<void> {
    await this.#pool.query('drop schema queue_empty cascade; drop schema queue_blocked cascade')
    await database.close(this.#pool)
  }
}

async function timeOf(queue: Queue): Promise<number> {
  const startedAt = performance.now()
  const received = await queue.receive({ limit: 10, waitMs: 0 })
  if (received.length > 0) throw new Error('A message was received although all keys are blocked.')
  return performance.now() - startedAt
}
