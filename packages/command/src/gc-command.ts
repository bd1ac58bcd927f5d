import { createGarbageCollector, type Collected, type GarbageCollector } from '@txbox/gc'
import type { PrometheusTelemetry } from '@txbox/prometheus'
import type { CollectableFigures } from '@txbox/core/ports'
import { SingleBar } from 'cli-progress'
import { besideRegistered, commandMetrics } from './command-metrics.ts'
import { connectDatabase, type CommandDatabase, type DatabaseOptions } from './connect-database.ts'
import { databaseProbe } from './database-probe.ts'
import { UsageError } from './failure.ts'
import { beginCollectorCounters } from './gc-metrics.ts'
import { OK, refuseMetricsWithoutPort, startHealthServer } from './health-server.ts'
import { readableDuration as duration } from '@txbox/core/internal'
import { whenReaderIsGone } from './output-reader.ts'
import { counted, write, writeJson } from './terminal.ts'
import { stderrLog } from './stderr-log.ts'
import { untilSignal } from './until-signal.ts'

interface GcOptions extends DatabaseOptions {
  readonly intervalMs?: number
  readonly batchSize?: number
  readonly pauseMs?: number
  readonly deadLetterRetentionMs: number
  readonly dryRun?: boolean
  readonly healthPort?: number
  readonly healthHost: string
  readonly metrics?: boolean
  readonly json?: boolean
}

export async function gcCommand(options: GcOptions): Promise<void> {
  if (options.healthPort !== undefined && (options.intervalMs === undefined || options.dryRun === true)) {
    throw new UsageError('--health-port requires --interval-ms: without it, the command ends after one run.')
  }
  refuseMetricsWithoutPort(options)
  const connected = await connectDatabase(options, 'gc')
  const log = stderrLog(options.json === true)
  try {
    const metrics = options.metrics === true ? commandMetrics('gc', connected.inspection, log) : undefined
    const gc = createGarbageCollector({
      logger: log,
      telemetry: metrics && besideRegistered(metrics),
      database: connected.database,
      batchSize: options.batchSize,
      pauseMs: options.pauseMs,
      intervalMs: options.intervalMs,
      deadLetterRetentionMs: options.deadLetterRetentionMs,
    })
    if (options.intervalMs !== undefined && options.dryRun !== true) {
      const health = await answerProbes(metrics, connected, options, log)
      try {
        return await collectByInterval(gc, log)
      } finally {
        await health?.close()
      }
    }
    const found = await connected.inspection.collectable(options.deadLetterRetentionMs)
    const what = rowsOf(found, ` ${ageOf(options.deadLetterRetentionMs)}`)
    if (options.dryRun === true) {
      if (options.json === true) writeJson({ dryRun: true, ...found })
      else write(`Would remove ${what}.`)
      return
    }
    if (options.json !== true) write(`Removing ${what}.`)
    const total = Object.values(found).reduce((sum, { count }) => sum + count, 0)
    await collectOnce(gc, total, options.json === true)
  } finally {
    await connected.close()
  }
}

/** Answers probes: a collector lives as long as its process, and is ready when its database answers. */
async function answerProbes(
  metrics: PrometheusTelemetry | undefined,
  { inspection }: CommandDatabase,
  { healthPort, healthHost }: GcOptions,
  log: ReturnType<typeof stderrLog>,
): Promise<{ close(): Promise<void> } | undefined> {
  if (healthPort === undefined) return undefined
  if (metrics !== undefined) beginCollectorCounters(metrics)
  const checks = { live: () => OK, ready: databaseProbe(inspection) }
  const server = await startHealthServer({ port: healthPort, host: healthHost }, checks, metrics)
  log.info({ event: 'health', port: server.port }, `Health probes are served on port ${server.port}.`)
  return server
}

async function collectOnce(gc: GarbageCollector, total: number, json: boolean): Promise<void> {
  const stopping = new AbortController()
  const bar =
    json || !process.stderr.isTTY || total === 0 ? undefined : new SingleBar({ stream: process.stderr })
  bar?.start(total, 0)
  const running = gc.runOnce({
    signal: stopping.signal,
    onProgress: (soFar) => bar?.update(Object.values(soFar).reduce((sum, count) => sum + count, 0)),
  })
  try {
    const collected = await untilSignal(running, () => stopping.abort())
    bar?.stop()
    if (json) writeJson(collected)
    else write(summaryOf(collected))
  } finally {
    bar?.stop()
  }
}

async function collectByInterval(gc: GarbageCollector, log: ReturnType<typeof stderrLog>): Promise<void> {
  gc.on('collected', (collected) => log.info({ event: 'collected', ...collected }, summaryOf(collected)))
  await gc.start()
  const stopped = Promise.withResolvers<void>()
  const stop = (): void => void gc.stop().then(stopped.resolve, stopped.reject)
  whenReaderIsGone(stop)
  await untilSignal(stopped.promise, (signal) => {
    log.info({ event: 'stopping', signal }, `${signal}: the collector finishes the batch in flight.`)
    stop()
  })
}

function summaryOf(collected: Collected): string {
  const { inbox, deadLetters, redrives, bufferedDeadLetters, handled, durationMs, complete } = collected
  const rows = { inbox, deadLetters, redrives, bufferedDeadLetters, handled }
  const exact = Object.fromEntries(Object.entries(rows).map(([name, count]) => [name, { count }]))
  const what = rowsOf(exact as Record<keyof typeof rows, { count: number }>)
  const end = complete ? '' : '; stopped before it was complete'
  return `Removed ${what}${what.includes(', and ') ? ',' : ''} in ${duration(durationMs)}${end}.`
}

/**
 * Describes the rows in words. Claims and dead letters are always named, other rows only if there are any. `age`
 * describes the dead letters.
 */
function rowsOf(
  found: Readonly<Record<keyof CollectableFigures, { readonly count: number; readonly atLeast?: boolean }>>,
  age = '',
): string {
  const { inbox, deadLetters, bufferedDeadLetters, redrives, handled } = found
  const others = [
    ...(bufferedDeadLetters.count > 0
      ? [`${counted(bufferedDeadLetters, 'dead letter')} of version buffers`]
      : []),
    ...(redrives.count > 0 ? [`${counted(redrives, 'record')} of redrives and removals`] : []),
    ...(handled.count > 0 ? [`${counted(handled, 'row')} of handled messages of queues`] : []),
  ]
  const last = others.pop()
  const more = last === undefined ? '' : `, ${others.map((other) => `${other}, `).join('')}and ${last}`
  return `${counted(inbox, 'expired claim')} and ${counted(deadLetters, 'dead letter')}${age}${more}`
}

function ageOf(retentionMs: number): string {
  if (!Number.isFinite(retentionMs)) return '(dead letters are kept forever)'
  return retentionMs === 0 ? 'of any age' : `older than ${duration(retentionMs)}`
}
