import { readCharges } from '../check/charge-history.ts'
import { judge } from '../check/checks.ts'
import type { Evidence } from '../check/evidence.ts'
import { gatherFromDatabase, readKills, readMoves } from '../check/gather-evidence.ts'
import { idsInHistory, keyHistory } from '../check/key-history.ts'
import type { CheckName, Verdict, Violation } from '../check/violation.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import { drain, drainMs } from './drain.ts'
import { showsPlant, type RunOptions, type RunParts } from './run-parts.ts'
import { machineStretch } from './machine-load.ts'
import type { RelaySettings } from './relay-settings.ts'
import type { Sample, TimelineEvent } from './timeline.ts'
import type { SlotFigures } from './fleet.ts'

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
    /** The same of the local consumers. Each message is for each consumer. */
    readonly localCommitted: number
    readonly localEffects: number
    readonly localLostByFailover: number
    readonly localEffectsLostByFailover: number
    readonly localDeadLetters: number
    /** HTTP requests, each with a key of its own, and all answers to them, also of attempts that were refused. */
    readonly httpRequests: number
    readonly httpAnswers: number
    readonly httpReplays: number
    readonly httpEffects: number
    readonly httpEffectsLostByFailover: number
    /** Charges of requests under a lease, and how many of them have ended. */
    readonly httpCharges: number
    readonly httpChargesEnded: number
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
  // The client ends when all its requests are answered.
  unclean.push(...(await fleet.end('http-client', drainMs(violation !== undefined))))
  const url = stand.database.directUrl()
  const dead = await drain(parts, url, violation !== undefined)
  for (const kind of [
    'relay',
    'consumer',
    'queue-worker',
    'local-worker',
    'http-service',
    'collector',
  ] as const)
    unclean.push(...(await fleet.end(kind, endMs)))
  const fromDatabase = await withDirectConnection(url, (sql) => gatherFromDatabase(options.database, sql))
  const evidence: Evidence = {
    ...fromDatabase,
    ...parts.settings,
    lost: losses.committed,
    queueLost: losses.queued,
    stuckKeys: [...watch.stuckKeys, ...fromDatabase.stuckKeys],
    localLost: losses.local,
    ...overHttp(parts),
    ...dead,
    leaseChanges: [...losses.leaseChanges, ...fromDatabase.leaseChanges],
    unfenced: [...losses.unfenced, ...fromDatabase.unfenced],
    copies: recorder.copies,
    first: recorder.first,
    kills: readKills(parts.killLog),
    consumerDeadLetters: [...recorder.deadLetters].map(([id, error]) => ({ id, error })),
    relayDeaths: fleet.relayDeaths,
    failovers: losses.failovers,
    timeline: timeline.events,
    standstills: textsOf(parts.standstills, 'standstill'),
    httpStandstills: textsOf(parts.standstills, 'http standstill'),
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

function overHttp({
  httpLog,
  chargeLog,
  losses,
}: RunParts): Pick<Evidence, 'httpCalls' | 'httpLost' | 'charges'> {
  httpLog.read()
  return { httpCalls: httpLog.calls, httpLost: losses.http, charges: readCharges(chargeLog) }
}

function textsOf(violations: readonly Violation[], check: CheckName): readonly string[] {
  return violations.filter((violation) => violation.check === check).map(({ text }) => text)
}

function figuresOf(
  { recorder, losses, watch, fleet, maxStretch }: RunParts,
  evidence: Evidence,
): RunResult['figures'] {
  const answers = evidence.httpCalls.flatMap((call) => call.answers)
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
    localCommitted: evidence.local.size,
    localEffects: evidence.localEffects.length,
    localLostByFailover: losses.local.size,
    localEffectsLostByFailover: losses.localEffects,
    localDeadLetters: evidence.localDeadLetters.length,
    httpRequests: new Set(evidence.httpCalls.map(({ key }) => key)).size,
    httpAnswers: answers.length,
    httpReplays: answers.filter(({ isReplayed }) => isReplayed).length,
    httpEffects: evidence.httpEffects.length,
    httpEffectsLostByFailover: losses.http.length,
    httpCharges: evidence.charges.length,
    httpChargesEnded: evidence.charges.filter(({ endedMs }) => endedMs !== undefined).length,
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
