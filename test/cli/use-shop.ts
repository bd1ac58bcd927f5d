import { beforeAll } from 'vitest'
import { Pool } from 'pg'
import { migrate } from '@txbox/postgres'
import { txbox, type Ended } from './run-txbox.ts'
import { useDatabaseUrl, type DatabaseUrl } from './use-database-url.ts'

/** A database with the tables of txbox, and the command on it. */
export function useShop(): DatabaseUrl & { run(...args: string[]): Promise<Ended> } {
  const database = useDatabaseUrl()
  beforeAll(async () => {
    const pool = new Pool({ connectionString: database.url })
    await migrate(pool)
    await pool.end()
  })
  return {
    get url() {
      return database.url
    },
    sql: (text) => database.sql(text),
    run: (...args) => txbox(args, { DATABASE_URL: database.url }),
  }
}

/** Inserts claims of a consumer; the given number of them have expired. */
export function claims(expired: number, live: number): string {
  return `insert into txbox.inbox (consumer, key, processed_at, expires_at)
    select 'c', n::text, now() - interval '2 days', now() + (case when n <= ${expired} then -1 else 1 end) * interval '1 hour'
    from generate_series(1, ${expired + live}) as n`
}

/** A row of the table of parked messages, or of that of queues. */
export function parked(id: string, columns: Record<string, string>, table = 'parked'): string {
  const all = {
    id: `'${id}'`,
    shard: '0',
    topic: "'orders'",
    content_type: "'application/json'",
    headers: "'{}'",
    payload: '\'{"n":1}\'',
    ...columns,
  }
  return `insert into txbox.${table} (${Object.keys(all).join(',')}) values (${Object.values(all).join(',')})`
}
