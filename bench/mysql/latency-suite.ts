import { migrate, mysql } from '@txbox/mysql'
import { latencyByDefault } from '../latency/by-default.ts'
import { txboxWaiters, type MakeDatabase } from '../latency/txbox-waiters.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'

/** A round of the usual length has too few messages for a 99th percentile. */
const SECONDS_FACTOR = 5

/** The time from the answer to COMMIT until a message arrives, where nothing can notify. */
export function mysqlLatencySuite(database: BenchDatabase): Suite {
  return {
    name: 'latency',
    run: ({ rounds, secondsPerRound }) =>
      latencyByDefault(
        { waiters: txboxWaiters(databaseOn(database)), peers: [] },
        { rounds, seconds: secondsPerRound * SECONDS_FACTOR },
        { firstP50: 60, idle: 1 },
      ),
  }
}

function databaseOn(database: BenchDatabase): MakeDatabase {
  return async (name, connections) => {
    const [waiting, sending] = [database.pool(connections), database.pool(4)]
    const prefix = `${name}_`
    await migrate(waiting, { prefix })
    return {
      waiting: mysql({ db: waiting, prefix }),
      sending: mysql({ db: sending, prefix }),
      async close() {
        await waiting.end()
        await sending.end()
      },
    }
  }
}
