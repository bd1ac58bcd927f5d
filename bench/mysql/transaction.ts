import type { Pool, PoolConnection } from 'mysql2/promise'

/** A transaction as a service with `mysql2` writes it. */
export async function transaction(
  pool: Pool,
  work: (connection: PoolConnection) => Promise<unknown>,
): Promise<void> {
  const connection = await pool.getConnection()
  try {
    await connection.beginTransaction()
    await work(connection)
    await connection.commit()
  } catch (error) {
    await connection.rollback()
    throw error
  } finally {
    connection.release()
  }
}
