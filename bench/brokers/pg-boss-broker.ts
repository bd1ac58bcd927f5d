import { PgBoss } from 'pg-boss'
import { pgBossPublisher } from '@txbox/pg-boss'
import type { BenchDatabase } from '../postgres/bench-database.ts'
import { fieldsOf, type BenchBroker } from './bench-broker.ts'

const QUEUE = 'bench'

/** A queue of pg-boss, in the same PostgreSQL. */
export function pgBossBroker(database: BenchDatabase): BenchBroker {
  return {
    name: 'pg-boss',
    messages: 20_000,
    variable: 'DATABASE_URL',
    async open() {
      const pool = database.pool({ max: 4 })
      const boss = new PgBoss({
        db: { executeSql: (text, values) => pool.query(text, values as unknown[]) },
        supervise: false,
        schedule: false,
      })
      boss.on('error', () => undefined)
      await boss.start()
      await boss.createQueue(QUEUE)
      return {
        empty: async () => void (await boss.deleteAllJobs(QUEUE)),
        async count() {
          const { rows } = await pool.query<{ count: string }>(
            'select count(*) as count from pgboss.job where name = $1',
            [QUEUE],
          )
          return Number(rows[0]!.count)
        },
        publisher: () => pgBossPublisher({ boss, queue: () => QUEUE }),
        client: async () => ({
          async publish(rows) {
            const jobs = rows.map((row) => ({
              id: row.id,
              data: { fields: fieldsOf(row), payload: JSON.parse(row.payload.toString()) as unknown },
            }))
            // As the publisher does, to learn which jobs were inserted.
            const inserted = await boss.insert(QUEUE, jobs, { returnId: true })
            if (inserted?.length !== rows.length) throw new Error('Some jobs were left out.')
          },
          close: async () => undefined,
        }),
        async dispose() {
          await boss.stop({ graceful: false })
          await database.close(pool)
        },
      }
    },
  }
}
