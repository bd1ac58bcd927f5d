import type { Client, ClientBase, PoolClient } from 'pg'
import type { Connection, PoolConnection } from 'mysql2/promise'

export type SqlValue = string | number | bigint | boolean | null
export type SqlRow = Readonly<Record<string, unknown>>

/** Runs statements with `?` in the place of values, on either driver. Counts come out as text or as numbers. */
export interface Sql {
  query(text: string, values?: readonly SqlValue[]): Promise<readonly SqlRow[]>
}

export function sqlOfPg(client: Client | PoolClient | ClientBase): Sql {
  return {
    async query(text, values = []) {
      let n = 0
      const { rows } = await client.query<Record<string, unknown>>(
        text.replaceAll('?', () => `$${(n += 1)}`),
        values.map((value) => (typeof value === 'bigint' ? String(value) : value)),
      )
      return rows
    },
  }
}

export function sqlOfMysql(connection: Connection | PoolConnection): Sql {
  return {
    async query(text, values = []) {
      const [rows] = await connection.query(text, [...values])
      return Array.isArray(rows) ? (rows as SqlRow[]) : []
    },
  }
}
