import { brokersSuite } from '../brokers/brokers-suite.ts'
import { handlesSuite } from '../handles/handles-suite.ts'
import { handlesOnPostgres } from '../handles/on-postgres.ts'
import type { BenchServer } from '../suite.ts'
import { aboutServer } from './about-server.ts'
import { BenchDatabase } from './bench-database.ts'
import { postgresDeduplicationSuite } from './deduplication-suite.ts'
import { gcSuite } from './gc-suite.ts'
import { httpSuite } from './http-suite.ts'
import { postgresInboxSuite } from './inbox-suite.ts'
import { latencySuite } from './latency-suite.ts'
import { postgresPublishSuite } from './publish-suite.ts'
import { localSuite } from './local-suite.ts'
import { queueSuite } from './queue-suite.ts'
import { consumerSuite } from './consumer-suite.ts'
import { retriesSuite } from './retries-suite.ts'
import { rabbitmqSuite } from './rabbitmq-suite.ts'
import { relaySuite } from './relay-suite.ts'
import { versioningSuite } from './versioning-suite.ts'

/** The PostgreSQL of DATABASE_URL, or the local one, with a database for this run only. */
export async function postgresServer(): Promise<BenchServer> {
  const database = await BenchDatabase.create()
  try {
    const pool = database.pool({ max: 1 })
    const about = await aboutServer(pool)
    await database.close(pool)
    return {
      about: [...about, ['database', database.name]],
      suites: [
        postgresInboxSuite(database),
        postgresPublishSuite(database),
        postgresDeduplicationSuite(database),
        relaySuite(database),
        rabbitmqSuite(database),
        latencySuite(database),
        versioningSuite(database),
        gcSuite(database),
        queueSuite(database),
        localSuite(database),
        consumerSuite(database),
        brokersSuite(database),
        retriesSuite(),
        handlesSuite(() => handlesOnPostgres(database)),
        httpSuite(database),
      ],
      dispose: () => database.drop(),
    }
  } catch (error) {
    await database.drop()
    throw error
  }
}
