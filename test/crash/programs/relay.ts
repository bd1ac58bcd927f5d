// A relay whose broker is a file. It writes to the file its leases, the calls that it begins and the messages.
import { appendFileSync } from 'node:fs'
import { createRelay, exponentialBackoff, type OutboxMessage, type Publisher } from '@txbox/relay'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { crc32 } from 'node:zlib'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface RelayConfig extends ProgramConfig {
  readonly owner: string
  readonly leaseMs: number
  readonly batchSize: number
  readonly ordering: 'none' | 'per-key'
  /** The first call keeps the event loop busy for so long. */
  readonly blockMs?: number
  /** Messages that kill the relay that publishes them. */
  readonly poison?: readonly string[]
  /** How often a message is tried. */
  readonly attempts?: number
  /** Each call waits until the test says go. */
  readonly gated?: boolean
}

/** A line of the file. */
export type LogEntry =
  | { readonly what: 'lease'; readonly owner: string; readonly shard: number; readonly held: boolean }
  | {
      readonly what: 'call'
      readonly owner: string
      readonly shards: readonly number[]
      readonly ids: readonly string[]
    }
  | {
      readonly what: 'delivery'
      readonly owner: string
      readonly id: string
      readonly key: string
      readonly body: string
    }

const config = configOf<RelayConfig>()
const mortal = new Mortal(config.fate)
const { owner } = config
let calls = 0

function write(entry: LogEntry): void {
  // One write of one line: a kill leaves all of it or nothing.
  appendFileSync(config.log, `${JSON.stringify(entry)}\n`)
}

function deliver(message: OutboxMessage): { status: 'accepted' } {
  if (config.poison?.includes(message.id) === true) process.kill(process.pid, 'SIGKILL')
  write({ what: 'delivery', owner, id: message.id, key: message.key ?? '', body: message.text() })
  mortal.reach('in the middle of a batch')
  return { status: 'accepted' }
}

const publisher: Publisher = {
  ordering: config.ordering,
  async publish(messages) {
    calls += 1
    const shards = [...new Set(messages.map(({ key }) => crc32(key ?? '') % 16))]
    write({ what: 'call', owner, shards, ids: messages.map(({ id }) => id) })
    mortal.reach('before publishing')
    if (calls === 1 && config.blockMs !== undefined) {
      const end = performance.now() + config.blockMs
      while (performance.now() < end);
    }
    if (config.gated === true) {
      report('publishing')
      await new Promise((resolve) => process.once('message', resolve))
    }
    const results = messages.map(deliver)
    mortal.reach('after publishing')
    return results
  },
}

const relay = createRelay({
  database: config.url.startsWith('mysql:')
    ? mysql({ db: mortalMysqlPool(mortal, config) })
    : postgres({ db: mortal.pool(config) }),
  publisher,
  owner,
  leaseMs: config.leaseMs,
  batchSize: config.batchSize,
  pollIntervalMs: { min: 2, max: 20 },
  retry: exponentialBackoff({ attempts: config.attempts ?? 10, minMs: 10 }),
})
relay.on('lease-acquired', ({ shard }) => write({ what: 'lease', owner, shard, held: true }))
relay.on('lease-lost', ({ shard, reason }) => {
  write({ what: 'lease', owner, shard, held: false })
  report(`lost ${reason}`)
})
relay.on('error', ({ error }) => report(`error ${String(error)}`))
process.once('SIGTERM', () => {
  void relay.stop().then(() => process.exit(0))
})
await relay.start()
report('started')
