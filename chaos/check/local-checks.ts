import { LOCAL_ATTEMPTS } from '../workers/limits.ts'
import { LOCAL_CONSUMERS } from '../workers/worker-protocol.ts'
import type { Committed } from './history.ts'
import type { LocalEffect, LocalRecord } from './local-history.ts'
import { chainOf, neighbors, type Neighbors } from './neighbors.ts'
import { found, ofKey, type Verdict, type Violation } from './violation.ts'

type Checked = Omit<Verdict, 'check'>

/** A message, its removal and its effects are in one database, so a failover loses the same part of all of them. */
export function checkLocalEffects({ local, localEffects }: LocalRecord): Checked {
  const counts = countsOf(localEffects)
  const missing = LOCAL_CONSUMERS.flatMap((consumer) =>
    [...local.values()]
      .filter(({ id }) => !counts.has(at(consumer, id)))
      .map((message) => ({ consumer, message })),
  )
  return found('local effect', local.size * LOCAL_CONSUMERS.length, [
    ...missing.map(({ consumer, message: { id, key, producer } }) => ({
      id,
      key,
      text: `The message ${id}${ofKey(key)} was committed by ${producer}, and has no effect at ${consumer}.`,
    })),
    ...wrongLocalEffects({ local, localEffects }),
  ])
}

/** Second effects, and effects of uncommitted messages: also before all messages are handled. */
export function wrongLocalEffects({
  local,
  localEffects,
}: Pick<LocalRecord, 'local' | 'localEffects'>): readonly Omit<Violation, 'check'>[] {
  const counts = countsOf(localEffects)
  const seen = new Set<string>()
  return localEffects.flatMap(({ consumer, id, place, worker }) => {
    const message = local.get(id)
    if (message === undefined) {
      return [{ id, text: `${worker} handled the message ${id} at ${consumer}, which nobody committed.` }]
    }
    const { key } = message
    const name = `the message ${id}${ofKey(key)}`
    if (message.place !== place)
      return [{ id, key, text: `${worker} got ${name} with the payload of another.` }]
    const count = counts.get(at(consumer, id))!
    if (count === 1 || seen.has(at(consumer, id))) return []
    seen.add(at(consumer, id))
    return [{ id, key, text: `T${name.slice(1)} has ${count} effects at ${consumer}.` }]
  })
}

/** By place, within each key and epoch. A key continues behind its dead letters, which come when they are redriven. */
export function checkLocalOrder(record: LocalRecord): Checked {
  const { looked, pairs } = ofEachConsumer(record, ({ place }) => place !== undefined)
  const wrong = pairs.filter(({ before, message }) => before.message.place! >= message.place!)
  return found(
    'local order',
    looked,
    wrong.map(({ before, message, effect: { consumer, worker } }) => ({
      id: message.id,
      key: message.key,
      text:
        `${worker} handled change ${message.place} of ${chainOf(message)} (${message.id}) at ${consumer} ` +
        `after change ${before.message.place} (${before.message.id}).`,
    })),
  )
}

/** A message is locked when the transaction of the previous message has ended. The messages of a batch are handled together. */
export function checkLocalOverlap(record: LocalRecord): Checked {
  const { looked, pairs } = ofEachConsumer(record, ({ key }) => key !== undefined)
  const wrong = pairs.filter(
    ({ before, effect }) => effect.call !== before.effect.call && effect.beganMs < before.effect.endedMs,
  )
  return found(
    'local one at a time',
    looked,
    wrong.map(({ before, message, effect: { consumer, worker, beganMs } }) => ({
      id: message.id,
      key: message.key,
      text:
        `${worker} began to handle the message ${message.id}${ofKey(message.key)} at ${consumer} ` +
        `${(before.effect.endedMs - beganMs).toFixed(1)} ms before ${before.effect.worker} had handled ` +
        `${before.message.id}.`,
    })),
  )
}

/** Only a message that was tried this often, and failed each time, may be a dead letter. */
export function checkLocalDeadLetters({ local, localDeadLetters }: LocalRecord): Checked {
  const innocent = localDeadLetters.filter(({ id }) => local.get(id)?.ill === undefined)
  return found(
    'local dead letters',
    localDeadLetters.length,
    innocent.map(({ consumer, id, error }) => ({
      id,
      key: local.get(id)?.key,
      text: `The message ${id} was given up at ${consumer} after ${LOCAL_ATTEMPTS} attempts: ${error ?? 'no error is stored'}.`,
    })),
  )
}

/** Messages that a local consumer handled before they were due. */
export function earlyAtLocal({ local, localEffects }: LocalRecord): {
  readonly looked: number
  readonly violations: readonly Omit<Violation, 'check'>[]
} {
  const scheduled = localEffects.filter(({ id }) => local.get(id)?.deliverAtMs !== undefined)
  const early = scheduled.filter(({ id, beganMs }) => beganMs < local.get(id)!.deliverAtMs! - 1)
  return {
    looked: scheduled.length,
    violations: early.map(({ id, consumer, beganMs }) => ({
      id,
      text: `The message ${id} came to ${consumer} ${Math.round(local.get(id)!.deliverAtMs! - beganMs)} ms before it was due.`,
    })),
  }
}

function ofEachConsumer(
  { local, localEffects, localDeadLetters }: LocalRecord,
  isSought: (message: Committed) => boolean,
): { readonly looked: number; readonly pairs: readonly Neighbors<LocalEffect>[] } {
  const dead = new Set(localDeadLetters.map(({ consumer, id }) => at(consumer, id)))
  const found = LOCAL_CONSUMERS.map((consumer) =>
    neighbors(
      local,
      localEffects.filter((effect) => effect.consumer === consumer),
      (message) => isSought(message) && !dead.has(at(consumer, message.id)),
    ),
  )
  return {
    looked: found.reduce((sum, { looked }) => sum + looked, 0),
    pairs: found.flatMap(({ pairs }) => pairs),
  }
}

function at(consumer: string, id: string): string {
  return `${consumer} ${id}`
}

function countsOf(effects: readonly LocalEffect[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { consumer, id } of effects)
    counts.set(at(consumer, id), (counts.get(at(consumer, id)) ?? 0) + 1)
  return counts
}
