import { handlesSuite } from '../handles/handles-suite.ts'
import { handlesOnMysql } from '../handles/on-mysql.ts'
import type { BenchServer } from '../suite.ts'
import { aboutServer } from './about-server.ts'
import { BenchDatabase } from './bench-database.ts'
import { mysqlDeduplicationSuite } from './deduplication-suite.ts'
import { mysqlLatencySuite } from './latency-suite.ts'
import { mysqlInboxSuite } from './inbox-suite.ts'
import { mysqlPublishSuite } from './publish-suite.ts'
import { mysqlRelaySuite } from './relay-suite.ts'

/** The MySQL or MariaDB of DATABASE_URL, or the local one, with a database for this run only. */
export async function mysqlServer(engine: 'mysql' | 'mariadb'): Promise<BenchServer> {
  const database = await BenchDatabase.create()
  try {
    const pool = database.pool(1)
    const about = await aboutServer(pool, engine)
    await pool.end()
    return {
      about: [...about, ['database', database.name]],
      suites: [
        mysqlInboxSuite(database),
        mysqlPublishSuite(database),
        mysqlDeduplicationSuite(database),
        mysqlRelaySuite(database),
        mysqlLatencySuite(database),
        handlesSuite(() => handlesOnMysql(database, engine)),
      ],
      dispose: () => database.drop(),
    }
  } catch (error) {
    await database.drop()
    throw error
  }
}
