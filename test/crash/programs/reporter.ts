// A relay or a local consumer whose telemetry asks for the gauges of the tables 20 times a second, and writes each value to the file.
import { appendFileSync } from 'node:fs'
import { createLocalConsumer } from '@txbox/consumer'
import type { Observation, Telemetry } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { createRelay } from '@txbox/relay'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface ReporterConfig extends ProgramConfig {
  readonly name: string
  readonly part: 'relay' | 'local consumer'
}

const ASK_EVERY_MS = 50
/** A process that was paused in the middle of a reading reports what was true before. */
const PAUSED_MS = 1000

const config = configOf<ReporterConfig>()
const mortal = new Mortal(config.fate)
let read: (() => Promise<readonly Observation[]>) | undefined

const telemetry: Telemetry = {
  capture: () => undefined,
  span: (_, work) => work({ set: () => undefined, failed: () => undefined }),
  count: () => undefined,
  record: () => undefined,
  observe(metric, reader) {
    if (metric === 'txbox.outbox.backlog.messages') read = reader
    return () => undefined
  },
}

const database = config.url.startsWith('mysql:')
  ? mysql({ db: mortalMysqlPool(mortal, config) })
  : postgres({ db: mortal.pool(config) })
const part =
  config.part === 'relay'
    ? createRelay({
        database,
        publisher: { publish: async (messages) => messages.map(() => ({ status: 'accepted' })) },
        telemetry,
      })
    : createLocalConsumer({
        database: database as never,
        consumer: config.name,
        handlers: { t: async () => undefined },
        telemetry,
      })
await part.start()
report('started')
setInterval(() => void ask(), ASK_EVERY_MS)

async function ask(): Promise<void> {
  const askedAt = performance.now()
  const found = await read?.()
  if (performance.now() - askedAt > PAUSED_MS) return
  if (found !== undefined && found.length > 0) appendFileSync(config.log, `${config.name}\n`)
}
