import { createPool, type Pool, type PoolConnection, type PoolOptions } from 'mysql2'
import { inject } from 'vitest'
import './provided.ts'
import type { RootOptions } from './target.ts'

/** A pool whose connections tests may kill. Each new connection first runs the statements `setup`. */
export function poolOf(url: string, config: PoolOptions, setup: readonly string[] = []): Pool {
  const { hostname, port, username, password, pathname } = new URL(url)
  const pool = createPool({
    host: hostname,
    port: Number(port === '' ? 3306 : port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
    connectionLimit: 4,
    ...config,
  })
  pool.on('connection', (connection: PoolConnection) => {
    connection.on('error', () => undefined)
    for (const statement of setup) connection.query(statement)
  })
  return pool
}

/** Statements that give all transactions of a connection this level. */
export function setupOf({ isolation }: Pick<RootOptions, 'isolation'>): readonly string[] {
  if (isolation === undefined) return []
  const snapshot = isolation === 'snapshot isolation'
  return [
    `set session transaction isolation level ${snapshot ? 'repeatable read' : isolation}`,
    ...(inject('hasSnapshotIsolation')
      ? [`set session innodb_snapshot_isolation = ${snapshot ? 'on' : 'off'}`]
      : []),
  ]
}
