import { setTimeout as pause } from 'node:timers/promises'
import type { ConnectedDatabase } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { createQueue } from '@txbox/queue'
import { createDeadLetters } from '@txbox/relay'
import mysql2 from 'mysql2/promise'
import { Pool } from 'pg'
import { judge } from '../check/checks.ts'
import type { Evidence } from '../check/evidence.ts'
import {
  gatherFromDatabase,
  readDeadLetters,
  readKills,
  readMoves,
  readQueueDeadLetters,
} from '../check/gather-evidence.ts'
import { readCommitted, readEffects } from '../check/history.ts'
import { readQueueEffects, readQueued } from '../check/queue-history.ts'
import { idsInHistory, keyHistory } from '../check/key-history.ts'
import type { Verdict, Violation } from '../check/violation.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import { showsPlant, type RunOptions, type RunParts } from './run-parts.ts'
import { QUEUE } from '../workers/worker-protocol.ts'
import { machineStretch } from './machine-load.ts'
import type { RelaySettings } from './relay-settings.ts'
import type { Sample, TimelineEvent } from './timeline.ts'
import type { SlotFigures } from './fleet.ts'

/** The time in which the workers must finish the remaining work when the faults are over. */
const DRAIN_MS = 60_000
const DRAIN_AFTER_VIOLATION_MS = 5000
const END_MS = 15_000

export interface RunResult {
  readonly options: RunOptions
  readonly settings: RelaySettings
  readonly steps: number
  readonly startedAtMs: number
  readonly durationMs: number
  readonly verdicts: readonly Verdict[]
  /** The violation that ended the run, or the first violation that the end of the run showed. */
  readonly first: Violation | undefined
  /** How long faults had been injected when the violation was found; `undefined` if only the end of the run showed it. */
  readonly foundAfterMs: number | undefined
  /** The history of the key of the first violation, line by line. */
  readonly history: readonly string[]
  readonly figures: {
    readonly committed: number
    readonly published: number
    readonly copies: number
    readonly duplicates: number
    readonly effects: number
    readonly extraDeliveries: number
    readonly lostByFailover: number
    readonly effectsLostByFailover: number
    /** Messages that were dead letters at the end, before they were redriven. */
    readonly deadLetters: number
    /** Messages that a consumer made dead letters; each was redriven at once. */
    readonly consumerDeadLetters: number
    readonly longestStandstillMs: number
    readonly longestStandstillAt: string
    /** The same of the queue. What a failover lost is known exactly: it was the message and its effect, or the effect alone. */
    readonly queueCommitted: number
    readonly queueEffects: number
    readonly queueLostByFailover: number
    readonly queueEffectsLostByFailover: number
    readonly queueDeadLetters: number
    readonly relayDeaths: number
    readonly maxStretch: number
  }
  readonly workers: ReadonlyMap<string, SlotFigures>
  readonly events: readonly TimelineEvent[]
  readonly samples: readonly Sample[]
  readonly folder: string
}

/** Ends all faults, lets the workers finish, ends the workers, and judges the final state. */
export async function finish(
  parts: RunParts,
  violation: Violation | undefined,
  steps: number,
): Promise<RunResult> {
  const { stand, timeline, losses, fleet, recorder, watch, options } = parts
  const unclean: string[] = []
  const endMs = END_MS * machineStretch()
  timeline.now('phase', 'drain', 'no more faults; the workers finish what is left')
  parts.modes.heal()
  unclean.push(...(await fleet.end('producer', endMs)))
  const url = stand.database.directUrl()
  const { deadLetters, queueDeadLetters } = await drain(parts, url, violation !== undefined)
  for (const kind of ['relay', 'consumer', 'queue-worker', 'collector'] as const)
    unclean.push(...(await fleet.end(kind, endMs)))
  const fromDatabase = await withDirectConnection(url, (sql) => gatherFromDatabase(options.database, sql))
  const evidence: Evidence = {
    ...fromDatabase,
    ...parts.settings,
    lost: losses.committed,
    queueLost: losses.queued,
    stuckKeys: [...watch.stuckKeys, ...fromDatabase.stuckKeys],
    queueDeadLetters,
    leaseChanges: [...losses.leaseChanges, ...fromDatabase.leaseChanges],
    unfenced: [...losses.unfenced, ...fromDatabase.unfenced],
    copies: recorder.copies,
    first: recorder.first,
    kills: readKills(parts.killLog),
    deadLetters,
    consumerDeadLetters: [...recorder.deadLetters].map(([id, error]) => ({ id, error })),
    relayDeaths: fleet.relayDeaths,
    failovers: losses.failovers,
    timeline: timeline.events,
    standstills: parts.standstills,
    resources: parts.online.resources,
    unclean: [...unclean.map((slot) => `${slot} did not end by itself.`), ...fleet.crashes],
  }
  const verdicts = judge(evidence)
  const first =
    violation ??
    verdicts.flatMap(({ violations }) => violations).find((one) => showsPlant(options.plant, one))
  return {
    options,
    steps,
    verdicts,
    first,
    settings: parts.settings,
    startedAtMs: timeline.startedAtMs,
    durationMs: Date.now() - timeline.startedAtMs,
    foundAfterMs: violation && foundAfterMs(timeline.events, violation),
    history: first === undefined ? [] : await historyOf(evidence, first, url),
    figures: figuresOf(parts, evidence),
    workers: fleet.figures,
    events: timeline.events,
    samples: timeline.samples,
    folder: stand.folder,
  }
}

function figuresOf(
  { recorder, losses, watch, fleet, maxStretch }: RunParts,
  evidence: Evidence,
): RunResult['figures'] {
  return {
    committed: evidence.committed.size,
    published: recorder.first.size,
    copies: recorder.copies.length,
    duplicates: recorder.copies.length - recorder.first.size,
    effects: evidence.effects.length,
    extraDeliveries: recorder.extraDeliveries,
    lostByFailover: losses.committed.size,
    effectsLostByFailover: losses.effects,
    deadLetters: evidence.deadLetters.length,
    consumerDeadLetters: evidence.consumerDeadLetters.length,
    longestStandstillMs: Math.round(watch.longest.ms),
    longestStandstillAt: watch.longest.what,
    queueCommitted: evidence.queued.size,
    queueEffects: evidence.queueEffects.length,
    queueLostByFailover: losses.queued.size,
    queueEffectsLostByFailover: losses.queueEffects,
    queueDeadLetters: evidence.queueDeadLetters.length,
    relayDeaths: fleet.relayDeaths.length,
    maxStretch: Number(maxStretch.toFixed(1)),
  }
}

async function historyOf(evidence: Evidence, first: Violation, url: string): Promise<readonly string[]> {
  const ids = idsInHistory(evidence, first)
  return keyHistory(evidence, first, await withDirectConnection(url, (sql) => readMoves(sql, ids)))
}

/** The time from when all workers were at work to the violation that ended the run. */
export function foundAfterMs(events: readonly TimelineEvent[], violation: Violation): number | undefined {
  const begin = events.find(({ kind }) => kind === 'phase')
  const end = events.find(({ kind, text }) => kind === 'violation' && text === violation.text)
  return begin && end && end.fromMs - begin.fromMs
}

/** Waits until every committed message has been published and has its effect, or until the time limit. */
async function drain(
  parts: RunParts,
  url: string,
  isFound: boolean,
): Promise<Pick<Evidence, 'deadLetters' | 'queueDeadLetters'>> {
  const { recorder, options } = parts
  // A message that waits for a lost predecessor would wait forever. A run that found only other violations waits for
  // the full time, since a message that had no time to be published is not lost.
  const drainMs = (isFound ? DRAIN_AFTER_VIOLATION_MS : DRAIN_MS) * machineStretch()
  const until = performance.now() + drainMs
  const deadLetters = new Map<string, Evidence['deadLetters'][number]>()
  const queueDeadLetters = new Map<string, Evidence['deadLetters'][number]>()
  await recorder.letGo()
  while (performance.now() < until) {
    const isDone = await withDirectConnection(url, async (sql) => {
      for (const letter of await readDeadLetters(options.database, sql)) deadLetters.set(letter.id, letter)
      for (const letter of await readQueueDeadLetters(options.database, sql)) {
        queueDeadLetters.set(letter.id, letter)
      }
      const handled = new Set((await readQueueEffects(sql)).map(({ id }) => id))
      if (!(await readQueued(sql)).every(({ id }) => handled.has(id))) return false
      const committed = await readCommitted(sql)
      if (!committed.every(({ id }) => recorder.first.has(id))) return false
      const effects = new Set((await readEffects(sql)).map(({ id }) => id))
      return [...recorder.first.keys()].every((id) => effects.has(id)) && (await recorder.backlog()) === 0
    }).catch(() => false)
    if (isDone) break
    const ids = [...deadLetters.keys()].filter((id) => !recorder.first.has(id))
    // A message that was redriven before is no longer a dead letter, and is skipped.
    await redrive(options.database, url, { ids, queueIds: [...queueDeadLetters.keys()] })
    await pause(500)
  }
  return { deadLetters: [...deadLetters.values()], queueDeadLetters: [...queueDeadLetters.values()] }
}

interface Redriven {
  readonly ids: readonly string[]
  readonly queueIds: readonly string[]
}

/** A dead letter can be handled once its illness is removed. */
async function redrive(engine: Engine, url: string, redriven: Redriven): Promise<void> {
  if (redriven.ids.length + redriven.queueIds.length === 0) return
  if (engine === 'postgres') {
    const pool = new Pool({ connectionString: url, max: 1 })
    try {
      await redriveIn(postgres({ db: pool }), redriven)
    } finally {
      await pool.end()
    }
    return
  }
  const pool = mysql2.createPool({ uri: url, connectionLimit: 1 })
  try {
    await redriveIn(mysql({ db: pool }), redriven)
  } finally {
    await pool.end()
  }
}

async function redriveIn<Tx>(database: ConnectedDatabase<Tx>, { ids, queueIds }: Redriven): Promise<void> {
  if (ids.length > 0) await createDeadLetters({ database }).redrive({ ids })
  if (queueIds.length > 0) await createQueue({ database, name: QUEUE }).deadLetters.redrive({ ids: queueIds })
}
