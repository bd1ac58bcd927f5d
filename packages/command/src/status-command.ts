import type {
  BlockingKey,
  BoundedCount,
  InspectionStore,
  LeaseFigures,
  LocalConsumerFigures,
  QueueFigures,
  StatusFigures,
} from '@txbox/core/ports'
import { pause, readableDuration, readableNumber } from '@txbox/core/internal'
import { consumersTable } from './consumers-table.ts'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'
import { listed, shortened, table } from './layout.ts'
import { oldestDueText } from './oldest-due.ts'
import { boundedNumber, counted, highlight, paint, write, writeJson } from './terminal.ts'
import { untilSignal } from './until-signal.ts'
import { visible } from './visible.ts'

const BLOCKING_KEYS = 10
const QUEUES = 100
const CONSUMERS = 100
const WATCH_SECONDS = 2
const ERROR_CHARACTERS = 200
const CLEAR_SCREEN = '\u001B[2J\u001B[H'

interface StatusOptions extends DatabaseOptions {
  /** The interval in seconds; `true` selects the default. */
  readonly watch?: number | true
  readonly json?: boolean
}

export async function statusCommand(options: StatusOptions): Promise<void> {
  const connected = await connectDatabase(options, 'status')
  try {
    if (options.watch === undefined) await show(connected.inspection, options.json === true)
    else
      await watch(
        connected.inspection,
        options.watch === true ? WATCH_SECONDS : options.watch,
        options.json === true,
      )
  } finally {
    await connected.close()
  }
}

async function watch(inspection: InspectionStore, seconds: number, json: boolean): Promise<void> {
  const stopping = new AbortController()
  const { signal } = stopping
  const refreshing = async (): Promise<void> => {
    while (!signal.aborted) {
      await show(inspection, json, process.stdout.isTTY && !json ? CLEAR_SCREEN : '')
      await pause(seconds * 1000, signal)
    }
  }
  await untilSignal(refreshing(), () => stopping.abort())
}

async function show(inspection: InspectionStore, json: boolean, before = ''): Promise<void> {
  const figures = await inspection.status()
  const queues = await inspection.queues(QUEUES)
  const consumers = await inspection.localConsumers(CONSUMERS)
  const blocking = await inspection.blockingKeys(BLOCKING_KEYS)
  const blocked = await inspection.blockedKeys()
  if (json) {
    const keys = { blockedKeys: blocked, blockingKeys: blocking }
    writeJson({ at: new Date(), ...figures, queues, localConsumers: consumers, ...keys })
  } else write(before + statusText({ figures, queues, consumers, blocking, blocked }))
}

interface Status {
  readonly figures: StatusFigures
  readonly queues: readonly QueueFigures[]
  readonly consumers: readonly LocalConsumerFigures[]
  readonly blocking: readonly BlockingKey[]
  readonly blocked: BoundedCount
}

function statusText({ figures, queues, consumers, blocking, blocked }: Status): string {
  const {
    oldestDue,
    backlog,
    oldestMs,
    parked,
    scheduled,
    dead,
    claims,
    claimsAreExact,
    expired,
    inboxBytes,
  } = figures
  const lines = [
    ['oldest due', oldestDue === undefined ? 'no message is due' : visible(oldestDueText(oldestDue))],
    [
      'backlog',
      counted(backlog, 'message') +
        (oldestMs === undefined ? '' : `, the oldest ${readableDuration(oldestMs)} old`),
    ],
    ['parked', highlight(parked.count, counted(parked, 'message'), 'yellow')],
    ['scheduled', counted(scheduled, 'message')],
    ['dead', highlight(dead.count, counted(dead, 'letter of the outbox', 'letters of the outbox'), 'red')],
    [
      'inbox',
      `${claimsAreExact ? '' : 'about '}${counted({ count: claims }, 'claim')}, ${readableNumber(Math.ceil(inboxBytes / 1024))} KiB; ${counted(expired, 'expired', 'expired')}`,
    ],
    ['collected', lastCollection(figures)],
  ] as const
  const parts = [listed(lines), relays(figures.leases)]
  if (queues.length > 0) parts.push(tableOf(queues))
  if (consumers.length > 0) parts.push(consumersTable(consumers))
  if (blocking.length > 0) {
    const rows = blocking.map((key) => [
      visible(key.key),
      visible(key.topic),
      visible(key.id),
      readableNumber(key.attempts),
      readableNumber(key.waiting),
      visible(shortened(key.error ?? '', ERROR_CHARACTERS)),
    ])
    parts.push(table(['blocked key', 'topic', 'message', 'attempts', 'waiting', 'error'], rows))
    if (blocked.count > blocking.length) {
      parts.push(
        `${readableNumber(blocking.length)} of ${counted(blocked, 'blocked key')}: those with the most waiting messages.`,
      )
    }
  }
  return parts.join('\n\n')
}

function tableOf(queues: readonly QueueFigures[]): string {
  const rows = queues.map(({ name, due, oldestMs, waiting, delayed, inFlight, dead }) => [
    visible(name),
    boundedNumber(due),
    oldestMs === undefined ? '' : readableDuration(oldestMs),
    ...[waiting, delayed, inFlight].map(boundedNumber),
    highlight(dead.count, boundedNumber(dead), 'red'),
  ])
  return table(['queue', 'due', 'oldest', 'waiting', 'delayed', 'in flight', 'dead'], rows)
}

function lastCollection({ lastCollection: last }: StatusFigures): string {
  if (last === undefined) return 'never'
  const ago = readableDuration(Math.max(0, Date.now() - last.finishedAt.getTime()))
  const removed = `${counted({ count: last.inbox }, 'claim')} and ${counted({ count: last.deadLetters }, 'dead letter')}`
  return `${ago} ago: ${removed} in ${readableDuration(last.durationMs)}`
}

/** One row for each relay: the number of its shards, and the time until its first lease expires. */
function relays(leases: readonly LeaseFigures[]): string {
  const ofRelays = leases.filter(({ name }) => name.startsWith('outbox/') || name.startsWith('relay/'))
  const byOwner = Map.groupBy(ofRelays, ({ owner }) => owner)
  if (byOwner.size === 0) return 'no relay holds a lease'
  const rows = [...byOwner].map(([owner, held]) => {
    const shards = held.filter(({ name }) => name.startsWith('outbox/')).length
    const soonest = Math.min(...held.map(({ remainingMs }) => remainingMs))
    const state =
      soonest > 0
        ? `for ${readableDuration(soonest)}`
        : paint('red', `expired ${readableDuration(-soonest)} ago`)
    return [visible(owner), readableNumber(shards), state]
  })
  return table(['relay', 'shards', 'leased'], rows)
}
