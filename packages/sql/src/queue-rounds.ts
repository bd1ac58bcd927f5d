import type { QueueReceipt } from '@txbox/core'

/** A message that is visible, and what is known about its key. Places are whole numbers, as text. */
export interface QueueCandidate {
  readonly place: string
  /** The key in whose order the message has a place. */
  readonly orderKey: string | undefined
  /** The number of receives so far. */
  readonly attempts: number
  /** How often in a row the visibility timeout has passed without an answer, this time included. */
  readonly timeouts: number
  /** The place of the first message of the key. */
  readonly first: string | undefined
  /** The place of the message of the key that has a receipt, which may be this one. */
  readonly flight: string | undefined
  /** Whether that receipt is valid. */
  readonly isFlightLive: boolean
  /** The size of the payload; 0 as long as it is not known. */
  readonly bytes: number
}

/** The decision of a round of a receive about the candidates of a shard. */
export interface QueueRound {
  /** Messages to hand out. */
  readonly taken: readonly QueueCandidate[]
  /** Messages that were received too often. */
  readonly buried: readonly QueueCandidate[]
  /** The places of messages that wait behind another of their key from now on. */
  readonly putBack: readonly string[]
  /** Keys whose first message becomes visible if it waits and no other message of the key is in flight. */
  readonly released: readonly string[]
}

/** The bounds of the messages that a round may hand out. */
export interface Bounds {
  /** The number of messages. */
  readonly limit: number
  /** The size of their payloads; the first message of a receive may be larger. */
  readonly bytes: number
  /** Nothing was received yet, so that a suspect may be. */
  readonly alone: boolean
}

/** The visibility timeouts in a row after which a message is handed out alone. */
const TIMEOUTS_OF_SUSPECTS = 2

/** The candidates that a round looks at first; later rounds look at ten times as many, up to the maximum. */
const LEAST_CANDIDATES = 10
const MOST_CANDIDATES = 1000

export function firstLook(limit: number): number {
  return Math.min(Math.max(limit, LEAST_CANDIDATES), MOST_CANDIDATES)
}

export function nextLook(look: number): number {
  return Math.min(look * 10, MOST_CANDIDATES)
}

/** The maximum size of the payloads of a receive. A larger payload comes alone. */
export const RECEIVED_BYTES = 16 * 1024 * 1024

/** A receive that has something returns after this share of the visibility timeout, which has begun for what it has. */
const SHARE_OF_TIMEOUT = 1 / 4

/** Returns the time of `performance.now()` at which a receive that begins now, and has something, returns. */
export function returnTime(visibilityTimeoutMs: number): number {
  return performance.now() + visibilityTimeoutMs * SHARE_OF_TIMEOUT
}

/** The error of a message that became a dead letter without an error: no receiver has answered. */
export const NEVER_ANSWERED =
  'The message was received as often as maxReceives allows, and no receiver has ever answered.'

/** Whether a message may kill the process that handles it, so that it must be handled alone. */
export function isSuspect({ timeouts }: Pick<QueueCandidate, 'timeouts'>): boolean {
  return timeouts >= TIMEOUTS_OF_SUSPECTS
}

/**
 * The places of messages whose receipt is no longer valid, although another message of their key may be received. The
 * transaction of a handler may have settled such a message without having committed: the row is then locked, and the key
 * is busy. The others must be put back before their key goes on.
 */
export function expiredFlights(candidates: readonly QueueCandidate[]): readonly string[] {
  return candidates.flatMap(({ place, first, flight, isFlightLive }) =>
    first === place && flight !== undefined && flight !== place && !isFlightLive ? [flight] : [],
  )
}

/**
 * Decides what becomes of the candidates, which are in the order in which they are handed out.
 *
 * @param unlocked the expired flights whose rows could be locked.
 */
export function queueRound(
  candidates: readonly QueueCandidate[],
  unlocked: ReadonlySet<string>,
  how: Bounds & { readonly maxReceives: number },
): QueueRound {
  const isNext = ({ place, orderKey, first, flight, isFlightLive }: QueueCandidate): boolean => {
    if (orderKey === undefined) return true
    if (first !== place) return false
    return flight === undefined || flight === place || (!isFlightLive && unlocked.has(flight))
  }
  const next = candidates.filter(isNext)
  const buried = next.filter(({ attempts }) => attempts >= how.maxReceives)
  const taken = handedOut(
    next.filter((candidate) => !buried.includes(candidate)),
    how,
  )
  const behind = candidates.filter((candidate) => !next.includes(candidate))
  const inFlight = new Set(taken.map(({ orderKey }) => orderKey))
  const freed = [...behind, ...buried, ...next.filter(({ flight }) => flight !== undefined)]
  return {
    taken,
    buried,
    putBack: [...new Set([...behind.map(({ place }) => place), ...unlocked])],
    released: [...new Set(freed.flatMap(({ orderKey }) => orderKey ?? []))].filter(
      (key) => !inFlight.has(key),
    ),
  }
}

/** A suspect is handed out alone, so that it can harm no other message. */
function handedOut(
  next: readonly QueueCandidate[],
  { limit, bytes, alone }: Bounds,
): readonly QueueCandidate[] {
  const [head] = next
  if (head !== undefined && alone && isSuspect(head)) return [head]
  const harmless = next.filter((candidate) => !isSuspect(candidate)).slice(0, limit)
  let sum = 0
  const fits = (candidate: QueueCandidate): boolean => (sum += candidate.bytes) <= bytes
  const end = harmless.findIndex((candidate) => !fits(candidate))
  return end < 0 ? harmless : harmless.slice(0, alone ? Math.max(end, 1) : end)
}

/** The receipts in the order of their places, and apart by whether their messages have a place in the order of a key. */
export function byOrder(receipts: readonly QueueReceipt[]): {
  readonly ordered: readonly QueueReceipt[]
  readonly unordered: readonly QueueReceipt[]
} {
  const sorted = receipts.toSorted((a, b) => (a.place < b.place ? -1 : 1))
  return {
    ordered: sorted.filter(({ ordered }) => ordered),
    unordered: sorted.filter(({ ordered }) => !ordered),
  }
}
