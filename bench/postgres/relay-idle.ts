import { setTimeout as pause } from 'node:timers/promises'
import { migrate, postgres } from '@txbox/postgres'
import { createRelay } from '@txbox/relay'
import type { BenchDatabase } from './bench-database.ts'
import { idlePublisher } from './relay-variants.ts'

const SCHEMA = 'relay_idle'
/** The time after which an idle relay polls at its longest interval. */
const SETTLING_MS = 5000

/** @returns the share of a core that this process uses while its relay is idle, without the work of the server. */
export async function idleCpu(database: BenchDatabase, seconds: number): Promise<number> {
  const own = database.pool({ max: 6 })
  await own.query(`drop schema if exists ${SCHEMA} cascade`)
  await migrate(own, { schema: SCHEMA })
  let used = 0
  {
    await using relay = createRelay({
      database: postgres({ db: own, schema: SCHEMA }),
      publisher: idlePublisher,
    })
    await relay.start()
    await pause(SETTLING_MS)
    const before = process.cpuUsage()
    const startedAt = performance.now()
    await pause(seconds * 1000)
    const { user, system } = process.cpuUsage(before)
    used = (user + system) / 1000 / (performance.now() - startedAt)
  }
  await database.close(own)
  return used
}
