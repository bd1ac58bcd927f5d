import { QUEUE_RECEIVES } from '../workers/limits.ts'
import type { Committed } from './history.ts'
import { chainOf, neighbors as neighborsOf } from './neighbors.ts'
import type { QueueEffect, QueueRecord } from './queue-history.ts'
import { found, ofKey, type Verdict, type Violation } from './violation.ts'

type Checked = Omit<Verdict, 'check'>

/** A message and its effect are in one database, so a failover loses both or neither. */
export function checkQueueEffects({ queued, queueEffects }: QueueRecord): Checked {
  const counts = countsOf(queueEffects)
  const missing = [...queued.values()].filter(({ id }) => !counts.has(id))
  return found('queue effect', queued.size, [
    ...missing.map(({ id, key, producer }) => ({
      id,
      key,
      text: `The message ${id}${ofKey(key)} was sent to the queue by ${producer}, committed, and has no effect.`,
    })),
    ...wrongEffects({ queued, queueEffects }, counts),
  ])
}

/** Second effects, and effects of uncommitted messages: also before all messages are handled. */
export function wrongEffects(
  { queued, queueEffects }: Pick<QueueRecord, 'queued' | 'queueEffects'>,
  counts = countsOf(queueEffects),
): readonly Omit<Violation, 'check'>[] {
  const twice = [...counts].filter(([, count]) => count > 1)
  return [
    ...twice.map(([id, count]) => ({
      id,
      key: queued.get(id)?.key,
      text: `The message ${id}${ofKey(queued.get(id)?.key)} of the queue has ${count} effects.`,
    })),
    ...queueEffects.flatMap(({ id, place, worker }) => {
      const message = queued.get(id)
      if (message === undefined) {
        return [{ id, text: `${worker} handled the message ${id} of the queue, which nobody committed.` }]
      }
      if (message.place === place) return []
      const { key } = message
      return [{ id, key, text: `${worker} got the message ${id}${ofKey(key)} with the payload of another.` }]
    }),
  ]
}

/** By place, within each key and epoch. A key continues behind its dead letters, which come when they are redriven. */
export function checkQueueOrder(record: QueueRecord): Checked {
  const { looked, pairs } = neighbors(record, ({ place }) => place !== undefined)
  const wrong = pairs.filter(({ before, message }) => before.message.place! >= message.place!)
  return found(
    'queue order',
    looked,
    wrong.map(({ before, message, effect }) => ({
      id: message.id,
      key: message.key,
      text:
        `${effect.worker} handled change ${message.place} of ${chainOf(message)} (${message.id}) ` +
        `after change ${before.message.place} (${before.message.id}).`,
    })),
  )
}

/** A message is received when the transaction of the previous message has ended. */
export function checkQueueOverlap(record: QueueRecord): Checked {
  const { looked, pairs } = neighbors(record, ({ key }) => key !== undefined)
  const wrong = pairs.filter(({ before, effect }) => effect.beganMs < before.effect.endedMs)
  return found(
    'one at a time',
    looked,
    wrong.map(({ before, message, effect }) => ({
      id: message.id,
      key: message.key,
      text:
        `${effect.worker} began to handle the message ${message.id}${ofKey(message.key)} ` +
        `${(before.effect.endedMs - effect.beganMs).toFixed(1)} ms before ${before.effect.worker} had handled ` +
        `${before.message.id}.`,
    })),
  )
}

/** Only a message that was received this often, and failed each time, may be a dead letter. */
export function checkQueueDeadLetters({ queued, queueDeadLetters }: QueueRecord): Checked {
  const innocent = queueDeadLetters.filter(({ id }) => queued.get(id)?.ill === undefined)
  return found(
    'queue dead letters',
    queueDeadLetters.length,
    innocent.map(({ id, error }) => ({
      id,
      key: queued.get(id)?.key,
      text: `The message ${id} of the queue was given up after ${QUEUE_RECEIVES} receives: ${error ?? 'no error is stored'}.`,
    })),
  )
}

/** Messages of the queue that were handled before they were due. */
export function earlyInQueue({ queued, queueEffects }: QueueRecord): {
  readonly looked: number
  readonly violations: readonly Omit<Violation, 'check'>[]
} {
  const scheduled = queueEffects.filter(({ id }) => queued.get(id)?.deliverAtMs !== undefined)
  const early = scheduled.filter(({ id, beganMs }) => beganMs < queued.get(id)!.deliverAtMs! - 1)
  return {
    looked: scheduled.length,
    violations: early.map(({ id, beganMs }) => ({
      id,
      text: `The message ${id} of the queue came ${Math.round(queued.get(id)!.deliverAtMs! - beganMs)} ms before it was due.`,
    })),
  }
}

function neighbors(
  { queued, queueEffects, queueDeadLetters }: QueueRecord,
  isSought: (message: Committed) => boolean,
) {
  const dead = new Set(queueDeadLetters.map(({ id }) => id))
  return neighborsOf(queued, queueEffects, (message) => isSought(message) && !dead.has(message.id))
}

function countsOf(effects: readonly QueueEffect[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { id } of effects) counts.set(id, (counts.get(id) ?? 0) + 1)
  return counts
}
