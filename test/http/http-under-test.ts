import { Pool } from 'pg'
import type { PoolClient } from 'pg'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll } from 'vitest'
import { createIdempotency, type Idempotency, type IdempotencyOptions } from '@txbox/idempotency-key'
import { migrate, postgres } from '@txbox/postgres'
import { useDatabaseUrl } from '../cli/use-database-url.ts'
import { until } from '../support/worlds/until.ts'

/** A database with a table of orders, for servers of the frameworks. */
export function useOrders() {
  const database = useDatabaseUrl()
  let pool: Pool
  let begun = 0
  beforeAll(async () => {
    pool = new Pool({ connectionString: database.url, max: 12 })
    await migrate(pool)
    pool.on('acquire', () => void (begun += 1))
    await pool.query('create table orders (shop text not null, sku text not null)')
  })
  afterAll(() => pool.end())
  return {
    /** How many times a connection was taken from the pool, other than by the methods of a shop. */
    begun: () => begun,
    create(options: IdempotencyOptions = {}) {
      const shop = `shop-${randomUUID()}`
      const errors: unknown[] = []
      const idempotency: Idempotency<PoolClient> = createIdempotency({
        ...options,
        name: shop,
        database: postgres({ db: pool }),
      })
      idempotency.on('error', ({ error }) => void errors.push(error))
      return {
        idempotency,
        errors,
        /** The number of calls, rolled back transactions included. */
        calls: 0,
        async order(tx: PoolClient, sku: string): Promise<number> {
          await tx.query('insert into orders values ($1, $2)', [shop, sku])
          return ++this.calls
        },
        async orders(): Promise<number> {
          const { rows } = await database.sql(`select count(*) as n from orders where shop = '${shop}'`)
          return Number(rows[0]!.n)
        },
        /** Connections with an open transaction. */
        async transactions(): Promise<number> {
          const { rows } = await database.sql(
            "select count(*) as n from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
          )
          return Number(rows[0]!.n)
        },
        /** Waits until no transaction is open: the server learns later that a connection was closed. */
        idle(): Promise<void> {
          return until(
            async () => (await this.transactions()) === 0,
            () => 'no transaction is open',
            5000,
          )
        },
      }
    },
  }
}

export type Shop = ReturnType<ReturnType<typeof useOrders>['create']>

/** Sends a request and reads all of its response. */
export async function send(
  url: string,
  {
    key = 'k1',
    body = { sku: 'A1' },
    headers = {},
    method = 'POST',
  }: {
    key?: string | undefined
    body?: unknown
    headers?: Record<string, string>
    method?: string
  } = {},
) {
  const response = await fetch(url, {
    method,
    headers: {
      ...(method === 'GET' ? {} : { 'content-type': 'application/json' }),
      ...(key === '' ? {} : { 'idempotency-key': key }),
      ...headers,
    },
    ...(method === 'GET' ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const bytes = Buffer.from(await response.arrayBuffer())
  return {
    status: response.status,
    headers: response.headers,
    bytes,
    text: bytes.toString(),
    isReplayed: response.headers.get('idempotent-replayed') === 'true',
  }
}
