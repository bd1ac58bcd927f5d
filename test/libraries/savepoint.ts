/** Runs `work` in a savepoint, for a library whose only savepoints are those of SQL. */
export async function inSavepoint(
  query: (sql: string) => Promise<unknown>,
  work: () => Promise<void>,
): Promise<void> {
  await query('savepoint nested')
  try {
    await work()
  } catch (error) {
    await query('rollback to savepoint nested')
    throw error
  }
  await query('release savepoint nested')
}
