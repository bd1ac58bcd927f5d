import { shardOf } from '@txbox/core/internal'
import type { Evidence } from './evidence.ts'
import type { Committed } from './history.ts'
import type { HttpCall, HttpEffect } from './http-history.ts'
import type { QueueEffect } from './queue-history.ts'
import type { Violation } from './violation.ts'

const MAX_LINES = 200
/** The history of a violation covers this time in ms before and after its message. */
const AROUND_MS = 15_000

interface Entry {
  readonly atMs: number
  readonly text: string
}

/** A message that entered or left a table of txbox. */
export interface Move {
  readonly atMs: number
  readonly id: string
  readonly text: string
}

/** The ids of the messages in the history of a violation. */
export function idsInHistory(evidence: Evidence, { id, key }: Violation): ReadonlySet<string> {
  const known = ledgersOf(evidence).flatMap((ledger) => Array.from(ledger.values()))
  const ids = new Set(known.filter((one) => key !== undefined && one.key === key).map((one) => one.id))
  if (id !== undefined) ids.add(id)
  return ids
}

/**
 * Lists the commits, moves, copies, effects, leases and faults of the key, or of the message, of a violation.
 *
 * @param moves of the messages of `idsInHistory`.
 */
export function keyHistory(
  evidence: Evidence,
  violation: Violation,
  moves: readonly Move[],
): readonly string[] {
  const { id, key } = violation
  const ids = idsInHistory(evidence, violation)
  const copies = evidence.copies.filter((copy) => ids.has(copy.id))
  const handlings = handlingsOf(evidence).filter((effect) => ids.has(effect.id))
  const center =
    copies.find((copy) => copy.id === id)?.recordedAtMs ??
    handlings.find((effect) => effect.id === id)?.beganMs ??
    evidence.httpCalls.find((call) => call.key === id)?.atMs ??
    moves.find((move) => move.id === id)?.atMs ??
    copies.at(-1)?.recordedAtMs
  const isNear = (atMs: number): boolean => center === undefined || Math.abs(atMs - center) < AROUND_MS
  const mark = (other: string): string => (other === id ? '* ' : '  ')
  const placeOf = (other: string): string => {
    const message = messageOf(evidence, other)
    return message?.place === undefined ? '' : ` (change ${message.place} of epoch ${message.epoch})`
  }
  const shard = key === undefined ? undefined : shardOf(key)
  const entries: Entry[] = [
    ...copies.map((copy) => ({
      atMs: copy.recordedAtMs,
      text: `${mark(copy.id)}published ${copy.id}${placeOf(copy.id)} by ${copy.relay}, called ${Math.round(copy.recordedAtMs - copy.calledAtMs)} ms before`,
    })),
    ...moves.map(({ atMs, id: moved, text }) => ({
      atMs,
      text: `${mark(moved)}${text} ${moved}${placeOf(moved)}`,
    })),
    ...handlings.map(({ id: handled, at, beganMs, endedMs, worker }) => ({
      atMs: beganMs,
      text: `${mark(handled)}handled ${handled}${placeOf(handled)} ${at} by ${worker}, for ${(endedMs - beganMs).toFixed(1)} ms`,
    })),
    ...evidence.httpCalls.filter(({ key: sent }) => ids.has(sent)).flatMap(callEntries),
    ...evidence.leaseChanges
      .filter((change) => change.shard === shard)
      .map(({ atMs, owner }) => ({ atMs, text: `  lease of shard ${shard}: ${owner ?? 'nobody'}` })),
    ...evidence.timeline.map(({ fromMs, text, kind, step }) => ({
      atMs: fromMs,
      text: `  ${kind}${step === undefined ? '' : ` of step ${step}`}: ${text}`,
    })),
  ]
  const near = entries.filter(({ atMs }) => isNear(atMs)).toSorted((a, b) => a.atMs - b.atMs)
  const from = near[0]?.atMs ?? 0
  const subject = messageOf(evidence, id ?? '')
  const effects = [...evidence.effects, ...handlings].filter((effect) => effect.id === id)
  return [
    ...(subject === undefined
      ? []
      : [
          `committed by ${subject.producer} as row ${subject.serial} of the ledger${placeOf(subject.id)}` +
            ([evidence.lost, evidence.queueLost, evidence.localLost].some((ledger) => ledger.has(subject.id))
              ? ', lost by a failover'
              : ''),
        ]),
    ...(id === undefined
      ? []
      : [
          `effects of ${id}: ${effects.map(({ serial, worker }) => `row ${serial} by ${worker}`).join(', ') || 'none'}`,
        ]),
    ...near
      .slice(-MAX_LINES)
      .map(({ atMs, text }) => `${String(Math.round(atMs - from)).padStart(7)} ms ${text}`),
  ]
}

/** The effects of the queue, of the local consumers and of HTTP requests, with the place where they happened. */
function handlingsOf({
  queueEffects,
  localEffects,
  httpEffects,
  httpLost,
  charges,
}: Evidence): readonly (Omit<QueueEffect, 'place'> & { readonly at: string })[] {
  const overHttp = (effect: HttpEffect, more = '') => ({
    ...effect,
    id: effect.key,
    at: `over HTTP with the response ${effect.id}${more}`,
  })
  return [
    ...httpEffects.map((effect) => overHttp(effect)),
    ...httpLost.map((effect) => overHttp(effect, ', lost by a failover')),
    ...charges.map(({ id, endedMs, ...charge }) => ({
      ...charge,
      serial: 0,
      id: charge.key,
      endedMs: endedMs ?? charge.beganMs,
      at: `under a lease with the response ${id}${endedMs === undefined ? ', without an end,' : ''}`,
    })),
    ...queueEffects.map((effect) => Object.assign({ at: 'from the queue' }, effect)),
    ...localEffects.map((effect) => Object.assign({ at: `at ${effect.consumer}` }, effect)),
  ]
}

/** A call of the HTTP client, and the answers to it. */
function callEntries({ call, key, ill, atMs, answers }: HttpCall): readonly Entry[] {
  const name = call.slice(0, 8)
  return [
    {
      atMs,
      text: `  sent ${key} by call ${name}${ill === undefined ? '' : `, made to suffer from: ${ill}`}`,
    },
    ...answers.map((answer) => ({
      atMs: answer.atMs,
      text:
        `  call ${name} got ${answer.status}${answer.isReplayed ? ', replayed,' : ''} by ${answer.service}` +
        (answer.id === undefined ? '' : ` with the response ${answer.id}`),
    })),
  ]
}

/** All ledgers, and what failovers have lost of them. */
function ledgersOf(evidence: Evidence): readonly ReadonlyMap<string, Committed>[] {
  const { committed, lost, queued, queueLost, local, localLost } = evidence
  return [committed, lost, queued, queueLost, local, localLost]
}

function messageOf(evidence: Evidence, id: string): Committed | undefined {
  return ledgersOf(evidence)
    .find((ledger) => ledger.has(id))
    ?.get(id)
}
