import { Pool, type PoolConfig } from 'pg'
import type { RootOptions } from './target.ts'

/** A pool whose connections tests may kill. */
export function poolOf(url: string, config: PoolConfig): Pool {
  const pool = new Pool({ connectionString: url, max: 4, ...config })
  // Tests kill connections on purpose; an idle one that breaks must not end the process.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => void client.on('error', () => undefined))
  return pool
}

/** The settings of each connection, which give all its transactions this level. */
export function settingsOf({ isolation }: Pick<RootOptions, 'isolation'>): PoolConfig {
  if (isolation === undefined) return {}
  return { options: `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}` }
}

/** `?` is the parameter of tests on every engine; PostgreSQL numbers them. */
export function numbered(sql: string): string {
  let number = 0
  return sql.replaceAll('?', () => `$${(number += 1)}`)
}
