import { Pool, type QueryResult } from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { createDatabase } from '../support/engines/servers/postgres-databases.ts'

export interface DatabaseUrl {
  readonly url: string
  /** Runs SQL in the database; the text may contain several statements. */
  sql(text: string): Promise<QueryResult>
}

/** Gives a test file the address of a new, empty database. */
export function useDatabaseUrl(): DatabaseUrl {
  let url = ''
  let pool: Pool | undefined
  let drop: (() => Promise<void>) | undefined
  beforeAll(async () => {
    const [serverUrl] = inject('needs').map((name) => inject('servers')[name])
    if (serverUrl === undefined) throw new Error('The project has no server.')
    ;({ url, drop } = await createDatabase(serverUrl))
    pool = new Pool({ connectionString: url, max: 2 })
  })
  afterAll(async () => {
    await pool?.end()
    await drop?.()
  })
  return {
    get url() {
      return url
    },
    sql: (text) => pool!.query(text),
  }
}
