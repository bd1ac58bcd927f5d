import type { Pool } from 'mysql2/promise'

/**
 * The number of rows that MySQL or MariaDB has examined for the statement, which is rolled back.
 *
 * @param pool a pool of one connection.
 */
export async function rowsExamined(pool: Pool, statement: string): Promise<number> {
  await pool.query('flush local status')
  await pool.query('start transaction')
  await pool.query(statement)
  const [rows] = await pool.query("show session status like 'Handler_read%'")
  await pool.query('rollback')
  return (rows as { Value: string }[]).reduce((sum, { Value }) => sum + Number(Value), 0)
}
