import { setTimeout as pause } from 'node:timers/promises'
import { connectedPortsOf } from '@txbox/core'
import { createRelay, type Relay, type RelayEvents } from '@txbox/relay'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'
import { createPublisher } from './create-publisher.ts'
import { oneLine } from './failure.ts'
import { databaseHealth, startHealthServer, type HealthChecks } from './health-server.ts'
import { untilSignal } from './until-signal.ts'

const CLOSE_WITHIN_MS = 2000

interface RelayCommandOptions extends DatabaseOptions {
  readonly publisher: string
  readonly exchange: string
  readonly drain?: boolean
  readonly batchSize?: number
  readonly leaseMs?: number
  readonly pollMinMs?: number
  readonly pollMaxMs?: number
  readonly owner?: string
  readonly stopTimeoutMs: number
  readonly healthPort?: number
  readonly healthHost: string
  readonly json?: boolean
}

/** `txbox relay`: logs go to standard error, since standard output may be where messages go. */
export async function relayCommand(options: RelayCommandOptions): Promise<void> {
  const publisher = createPublisher(options.publisher, options.exchange)
  const connected = connectDatabase(options, 'relay')
  try {
    const { pollMinMs: min = 20, pollMaxMs: max = Math.max(min, 500) } = options
    const relay = createRelay({
      database: connected.database,
      publisher,
      batchSize: options.batchSize,
      leaseMs: options.leaseMs,
      pollIntervalMs: { min, max },
      owner: options.owner,
    })
    report(relay, options.json === true)
    const broken = whenOutputBreaks(() => void relay.stop({ timeoutMs: options.stopTimeoutMs }))
    const health =
      options.healthPort === undefined
        ? undefined
        : await startHealthServer(
            { port: options.healthPort, host: options.healthHost },
            healthOf(relay, () => connectedPortsOf('relay', connected.database).checkSchema()),
          )
    if (health !== undefined)
      log(options.json === true, 'health', `listening on port ${health.port}`, { port: health.port })
    try {
      await run(relay, options)
    } finally {
      await health?.close()
    }
    if (broken.error !== undefined) throw broken.error
  } finally {
    await closeWithin(CLOSE_WITHIN_MS, connected.close())
  }
}

/** Whoever reads our output may go away, as `head` does; messages that he has not read stay in the outbox. */
function whenOutputBreaks(stop: () => void): { error: Error | undefined } {
  const broken: { error: Error | undefined } = { error: undefined }
  process.stdout.on('error', (error) => {
    broken.error ??= error
    stop()
  })
  return broken
}

/** Connections to a server that has gone silent may never close: then the process ends without them. */
async function closeWithin(ms: number, closing: Promise<void>): Promise<void> {
  const late = await Promise.race([closing, pause(ms, 'late')])
  if (late === 'late') setTimeout(() => process.exit(), ms).unref()
}

/** Runs, or drains, and stops on a signal; in any case everything is given back. */
async function run(relay: Relay, options: RelayCommandOptions): Promise<void> {
  const json = options.json === true
  const stop = (signal: string): void => {
    log(json, 'stopping', `${signal}: finishing what is in flight`, { signal })
    void relay.stop({ timeoutMs: options.stopTimeoutMs })
  }
  const work = async (): Promise<void> => {
    if (options.drain === true) {
      const counts = await relay.drain()
      log(
        json,
        'drained',
        `published ${counts.published}, parked ${counts.parked}, dead letters ${counts.deadLettered}`,
        counts,
      )
    } else {
      await relay.start()
      log(json, 'started', 'relaying; stop with SIGTERM or Ctrl-C', {})
      await relay.stopped
    }
  }
  try {
    await untilSignal(work(), stop)
  } finally {
    await relay.stop({ timeoutMs: options.stopTimeoutMs })
  }
}

/** Ready: started, the broker takes messages, and the database answers. Alive: not ended, and able to answer at all. */
function healthOf(relay: Relay, checkSchema: () => Promise<void>): HealthChecks {
  let ended = false
  let outage: string | undefined
  const end = (): void => void (ended = true)
  relay.stopped.then(end, end)
  relay.on('unavailable', ({ error }) => (outage = oneLine(error)))
  relay.on('published', () => (outage = undefined))
  return {
    live: () => (ended ? { ok: false, reason: 'the relay has ended' } : { ok: true }),
    async ready() {
      if (ended) return { ok: false, reason: 'the relay has ended' }
      if (outage !== undefined) return { ok: false, reason: 'the publisher does not take messages' }
      return databaseHealth(checkSchema)
    },
  }
}

function report(relay: Relay, json: boolean): void {
  const tell = <E extends keyof RelayEvents>(event: E, text: (value: RelayEvents[E]) => string): void => {
    relay.on(event, (value) => log(json, event, text(value), value))
  }
  tell('lease-acquired', ({ shard }) => `shard ${shard}`)
  tell('lease-lost', ({ shard, reason }) => `shard ${shard} (${reason})`)
  tell('unavailable', ({ error, retryInMs }) => `${oneLine(error)}; next try in ${Math.round(retryInMs)} ms`)
  tell('parked', ({ id, topic, attempt, dueAt, error }) => {
    return `message ${id} for '${topic}', attempt ${attempt}, again at ${dueAt.toISOString()}: ${oneLine(error)}`
  })
  tell('dead-lettered', ({ id, topic, attempts, error }) => {
    return `message ${id} for '${topic}' after ${attempts} attempts: ${oneLine(error)}`
  })
  tell('error', ({ error }) => oneLine(error))
  if (json) tell('published', ({ count }) => String(count))
}

function log(json: boolean, event: string, text: string, value: object): void {
  const at = new Date().toISOString()
  const line = json ? JSON.stringify({ at, event, ...value }, jsonValue) : `${at} ${event}: ${text}`
  process.stderr.write(`${line}\n`)
}

function jsonValue(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  return value instanceof Error ? oneLine(value) : value
}
