import { RepeatedTrouble, within } from '@txbox/core/internal'
import type { PrometheusTelemetry } from '@txbox/prometheus'
import { createRelay, type Publisher, type Relay } from '@txbox/relay'
import { besideRegistered, commandMetrics } from './command-metrics.ts'
import { connectDatabase, type CommandDatabase, type DatabaseOptions } from './connect-database.ts'
import { createPublisher, type PublisherOptions } from './publish/create-publisher.ts'
import { UsageError } from './failure.ts'
import { refuseMetricsWithoutPort, startHealthServer } from './health-server.ts'
import { whenReaderIsGone } from './output-reader.ts'
import { observeRelay } from './relay-metrics.ts'
import { lagText, RelayProgress } from './relay-progress.ts'
import { RelayReadiness } from './relay-readiness.ts'
import { stderrLog } from './stderr-log.ts'
import { counted } from './terminal.ts'
import { untilSignal } from './until-signal.ts'

const CLOSE_TIMEOUT_MS = 2000
const CHECK_TIMEOUT_MS = 10_000

type CommandOptions = DatabaseOptions & PublisherOptions

interface RelayCommandOptions extends CommandOptions {
  readonly check?: boolean
  readonly drain?: boolean
  /** The time limit in seconds. */
  readonly timeout?: number
  readonly batchSize?: number
  readonly batchBytes?: number
  readonly wakeup?: 'auto' | 'poll' | 'notify'
  readonly leaseMs?: number
  readonly pollMinMs?: number
  readonly pollMaxMs?: number
  readonly owner?: string
  readonly stopTimeoutMs: number
  readonly logIntervalMs: number
  readonly healthPort?: number
  readonly healthHost: string
  readonly metrics?: boolean
  readonly json?: boolean
}

interface Probed {
  readonly relay: Relay
  readonly publisher: Publisher
  readonly metrics: PrometheusTelemetry | undefined
}

type Log = ReturnType<typeof stderrLog>

export async function relayCommand(options: RelayCommandOptions): Promise<void> {
  if (options.timeout !== undefined && options.drain !== true) {
    throw new UsageError('--timeout requires --drain: without --drain, a relay runs until it is stopped.')
  }
  if (options.check === true && options.drain === true) {
    throw new UsageError('--check and --drain: --check publishes nothing. Give one of them.')
  }
  refuseMetricsWithoutPort(options)
  const publisher = await createPublisher(options)
  const log = stderrLog(options.json === true)
  const connected = await connectDatabase(options, 'relay')
  try {
    if (options.check === true) return await check(publisher, connected, log)
    const { pollMinMs: min, pollMaxMs: max } = options
    const metrics = options.metrics === true ? commandMetrics('relay', connected.inspection, log) : undefined
    const relay = createRelay({
      database: connected.database,
      publisher,
      batchSize: options.batchSize,
      batchBytes: options.batchBytes,
      wakeup: options.wakeup,
      leaseMs: options.leaseMs,
      pollIntervalMs: { min, max },
      owner: options.owner,
      logger: log,
      telemetry: metrics && besideRegistered(metrics),
    })
    whenReaderIsGone(() => void relay.stop({ timeoutMs: options.stopTimeoutMs }))
    const health = await answerProbes({ relay, publisher, metrics }, connected, options, log)
    try {
      await run(relay, connected, options, log)
    } finally {
      await health?.close()
    }
  } finally {
    await closeWithin(CLOSE_TIMEOUT_MS, connected.close())
  }
}

/** Connects to both sides, and publishes nothing. */
async function check(publisher: Publisher, { inspection }: CommandDatabase, log: Log): Promise<void> {
  try {
    await inspection.lag()
    await publisher.check?.({ signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) })
    const text =
      publisher.check === undefined
        ? 'The database is ready. This publisher cannot be checked.'
        : 'The database and the publisher are ready.'
    log.info({ event: 'checked' }, text)
  } finally {
    await publisher.close?.()
  }
}

/**
 * Checks the publisher at the start, so that a wrong password is reported before the first message, and serves the
 * probes.
 */
async function answerProbes(
  { relay, publisher, metrics }: Probed,
  { inspection }: CommandDatabase,
  { healthPort, healthHost }: RelayCommandOptions,
  log: Log,
): Promise<{ close(): Promise<void> } | undefined> {
  const trouble = new RepeatedTrouble()
  const readiness = new RelayReadiness(relay, publisher, inspection, (reason) =>
    trouble.report('not-ready', (times) =>
      log.warn({ event: 'not-ready', error: reason, times }, `The publisher is not ready: ${reason}`),
    ),
  )
  if (healthPort === undefined) return undefined
  if (metrics !== undefined) observeRelay(metrics, relay, () => readiness.isPublisherUp())
  const server = await startHealthServer({ port: healthPort, host: healthHost }, readiness, metrics)
  log.info({ event: 'health', port: server.port }, `Health probes are served on port ${server.port}.`)
  return server
}

/**
 * Ends the process if connections do not close in time: a connection to a server that no longer answers may never
 * close.
 */
async function closeWithin(ms: number, closing: Promise<void>): Promise<void> {
  const late = await within(closing, ms, () => 'late', { ref: false })
  if (late === 'late') setTimeout(() => process.exit(), ms).unref()
}

/** Runs or drains the relay, and stops it on a signal. Always releases the leases at the end. */
async function run(
  relay: Relay,
  connected: CommandDatabase,
  options: RelayCommandOptions,
  log: Log,
): Promise<void> {
  const stop = (signal: string): void => {
    log.info({ event: 'stopping', signal }, `${signal}: the relay finishes what is in flight.`)
    void relay.stop({ timeoutMs: options.stopTimeoutMs })
  }
  const work = async (): Promise<void> => {
    if (options.drain === true) return drain(relay, connected, options.timeout, log)
    const progress = new RelayProgress(relay, connected.inspection, log, options.logIntervalMs)
    await relay.start()
    progress.start()
    await relay.stopped.finally(() => progress.stop())
  }
  try {
    await untilSignal(work(), stop)
  } finally {
    await relay.stop({ timeoutMs: options.stopTimeoutMs })
  }
}

async function drain(
  relay: Relay,
  { inspection }: CommandDatabase,
  timeoutSeconds: number | undefined,
  log: Log,
): Promise<void> {
  const draining = relay.drain()
  const counts =
    timeoutSeconds === undefined
      ? await draining
      : await within(draining, timeoutSeconds * 1000, () => undefined)
  if (counts === undefined) {
    const lag = await lagText(inspection)
    throw new Error(`The outbox is not drained after ${timeoutSeconds} s: ${lag}.`)
  }
  const { published, parked, deadLettered } = counts
  const letters = counted({ count: deadLettered }, 'dead letter')
  const text = `Drained: ${counted({ count: published }, 'message')} published, ${parked} parked, ${letters}.`
  log.info({ event: 'drained', ...counts }, text)
}
