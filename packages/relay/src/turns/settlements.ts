import type { BacklogMessage, ParkedSettlement, Settlement } from '@txbox/core'
import { waitingKeys, type Refused } from './refusals.ts'

/** The results of messages of the outbox. `behind`: messages that wait for a parked message of their key. */
export function outboxSettlement(
  accepted: readonly BacklogMessage[],
  refused: readonly Refused[],
  behind: readonly BacklogMessage[],
): Settlement {
  return {
    accepted,
    refused: refused.map(({ refusal }) => refusal),
    behind: behind.map((row) => ({ row, suspect: false })),
  }
}

/**
 * The results of parked messages. A key continues after accepted and dead messages, unless a message of the key is
 * tried again.
 */
export function parkedSettlement(
  accepted: readonly BacklogMessage[],
  refused: readonly Refused[],
): ParkedSettlement {
  const waiting = waitingKeys(refused)
  const through = new Map<string, bigint>()
  for (const { ordered, key, seq } of [...accepted, ...refused.map(({ message }) => message)]) {
    if (!ordered || key === undefined || waiting.has(key)) continue
    const last = through.get(key)
    if (last === undefined || seq > last) through.set(key, seq)
  }
  return {
    accepted,
    refused: refused.map(({ refusal }) => refusal),
    released: [...through].map(([key, after]) => ({ key, after })),
  }
}

/** Messages of a batch that have to wait behind a message of the same batch that was refused and is tried again. */
export function behindRefused(
  batch: readonly BacklogMessage[],
  accepted: readonly BacklogMessage[],
  refused: readonly Refused[],
): readonly BacklogMessage[] {
  const waiting = waitingKeys(refused)
  if (waiting.size === 0) return []
  const gone = new Set([...accepted, ...refused.map(({ message }) => message)])
  return batch.filter((message) => waiting.has(message.key) && !gone.has(message))
}

/**
 * Suspects of the outbox, and the messages before them in their keys: parked messages of a key keep the order in which
 * they were parked, so that a message that stayed in the outbox would come after the suspect. The first message of each
 * key is due, and the others wait behind it. A `blocked` message waits behind a parked message.
 *
 * @param batch the first messages of the outbox, in its order.
 */
export function suspectSettlement(
  batch: readonly BacklogMessage[],
  suspects: ReadonlySet<BacklogMessage>,
): Settlement {
  const lastOf = new Map([...suspects].map(({ key, seq }) => [key, seq]))
  const isBefore = ({ key, seq }: BacklogMessage): boolean =>
    key !== undefined && seq < (lastOf.get(key) ?? seq)
  const seen = new Set<string>()
  const heads: BacklogMessage[] = []
  const behind: BacklogMessage[] = []
  for (const message of batch) {
    if (!suspects.has(message) && !isBefore(message)) continue
    const { key, blocked } = message
    if (blocked || (key !== undefined && seen.has(key))) behind.push(message)
    else heads.push(message)
    if (key !== undefined) seen.add(key)
  }
  return {
    accepted: [],
    refused: heads.map((row) => ({
      row,
      attempts: 0,
      error: '',
      errors: undefined,
      retryInMs: 0,
      suspect: suspects.has(row),
    })),
    behind: behind.map((row) => ({ row, suspect: suspects.has(row) })),
  }
}
