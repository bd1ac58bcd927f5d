import { createGarbageCollector, type Collected, type GarbageCollector } from '@txbox/gc'
import { SingleBar } from 'cli-progress'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'
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
  readonly json?: boolean
}

/** `txbox gc` */
export async function gcCommand(options: GcOptions): Promise<void> {
  const connected = await connectDatabase(options, 'gc')
  const log = stderrLog(options.json === true)
  try {
    const gc = createGarbageCollector({
      logger: log,
      database: connected.database,
      batchSize: options.batchSize,
      pauseMs: options.pauseMs,
      intervalMs: options.intervalMs,
      deadLetterRetentionMs: options.deadLetterRetentionMs,
    })
    if (options.intervalMs !== undefined && options.dryRun !== true) return await collectByInterval(gc, log)
    const found = await connected.inspection.collectable(options.deadLetterRetentionMs)
    const claims = counted(found.inbox, 'expired claim')
    const letters = counted(found.deadLetters, 'dead letter')
    const what = `${claims} and ${letters} ${ageOf(options.deadLetterRetentionMs)}`
    if (options.dryRun === true) {
      if (options.json === true)
        writeJson({ dryRun: true, inbox: found.inbox, deadLetters: found.deadLetters })
      else write(`Would remove ${what}.`)
      return
    }
    if (options.json !== true) write(`Removing ${what}.`)
    await collectOnce(gc, found.inbox.count + found.deadLetters.count, options.json === true)
  } finally {
    await connected.close()
  }
}

async function collectOnce(gc: GarbageCollector, total: number, json: boolean): Promise<void> {
  const stopping = new AbortController()
  const bar =
    json || !process.stderr.isTTY || total === 0 ? undefined : new SingleBar({ stream: process.stderr })
  bar?.start(total, 0)
  const running = gc.runOnce({
    signal: stopping.signal,
    onProgress: ({ inbox, deadLetters }) => bar?.update(inbox + deadLetters),
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
  const { inbox, deadLetters, redrives, bufferedDeadLetters, durationMs, complete } = collected
  const letters = counted({ count: deadLetters }, 'dead letter')
  const others = [
    ...(bufferedDeadLetters > 0
      ? [`${counted({ count: bufferedDeadLetters }, 'dead letter')} of version buffers`]
      : []),
    ...(redrives > 0 ? [`${counted({ count: redrives }, 'record')} of redrives`] : []),
  ]
  const last = others.pop()
  const more = last === undefined ? '' : `, ${others.map((other) => `${other}, `).join('')}and ${last},`
  const what = `${counted({ count: inbox }, 'expired claim')} and ${letters}${more}`
  return `Removed ${what} in ${duration(durationMs)}${complete ? '' : '; stopped before it was complete'}.`
}

function ageOf(retentionMs: number): string {
  if (!Number.isFinite(retentionMs)) return '(dead letters are kept forever)'
  return retentionMs === 0 ? 'of any age' : `older than ${duration(retentionMs)}`
}
