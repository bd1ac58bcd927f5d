import type { QueueReceipt } from '@txbox/core/ports'
import { RECEIVED_BYTES, type Bounds } from './receive-budget.ts'

/** A visible message, and the state of its key. Places are whole numbers, as text. */
export interface QueueCandidate {
  readonly place: string
  /** The key, if the message is part of the order of its key. */
  readonly orderKey: string | undefined
  readonly receives: number
  /**
   * How often in a row the visibility timeout has passed without a settlement, including the current receive if its
   * timeout has passed.
   */
  readonly timeouts: number
  /** The place of the first message of the key. */
  readonly first: string | undefined
  /** The place of the message of the key that has a receipt. This may be the candidate itself. */
  readonly flight: string | undefined
  /** Whether that receipt is valid. */
  readonly isFlightLive: boolean
  /** The size of the payload in bytes; 0 while the size is not known. */
  readonly bytes: number
}

/** What one round of a receive does with the candidates of a shard. */
export interface QueueRound {
  /** Messages to hand out. */
  readonly taken: readonly QueueCandidate[]
  /** Messages that were received too often and become dead letters. */
  readonly buried: readonly QueueCandidate[]
  /** Whether more of the candidates were received too often. They stay visible for another round. */
  readonly hasMoreToBury: boolean
  /** The places of messages that become invisible again, because they must wait behind another message of their key. */
  readonly putBack: readonly string[]
  /** Keys whose first message becomes visible if it waits and no other message of the key is in flight. */
  readonly released: readonly string[]
}

/** The maximum number of messages of a round that become dead letters: their payloads are read for the events of consumers. */
const BURIED_AT_ONCE = 10

/** A message is a suspect after this many visibility timeouts in a row, or earlier if `maxReceives` leaves fewer. */
const TIMEOUTS_OF_SUSPECTS = 2

/**
 * The number of candidates that a first round looks at, at least. Later rounds look at ten times as many as the round
 * before, up to the maximum.
 */
const MIN_CANDIDATES = 10
const MAX_CANDIDATES = 1000

export function firstLook(limit: number): number {
  return Math.min(Math.max(limit, MIN_CANDIDATES), MAX_CANDIDATES)
}

export function nextLook(look: number): number {
  return Math.min(look * 10, MAX_CANDIDATES)
}

/** The error of a message that becomes a dead letter without any receiver having reported an error. */
export const NEVER_ANSWERED =
  'The message was received as often as maxReceives allows, and no receiver has ever answered.'

/**
 * Whether handling the message may crash the process, so that the message must be handled alone: at the latest at the
 * last receive, unless that is also the first.
 */
export function isSuspect({ timeouts }: Pick<QueueCandidate, 'timeouts'>, maxReceives: number): boolean {
  return timeouts >= Math.min(TIMEOUTS_OF_SUSPECTS, Math.max(1, maxReceives - 1))
}

/**
 * Returns the places of messages whose receipt has expired, and whose key has another message to be received first. The
 * row of such a message may be locked: then an open transaction has settled the message, and its key is busy. All
 * others must be put back before another message of their key is received.
 */
export function expiredFlights(candidates: readonly QueueCandidate[]): readonly string[] {
  return candidates.flatMap(({ place, first, flight, isFlightLive }) =>
    first === place && flight !== undefined && flight !== place && !isFlightLive ? [flight] : [],
  )
}

/**
 * Decides what happens to each candidate. The candidates are in the order in which they may be handed out.
 *
 * @param unlocked those of the `expiredFlights` whose rows this transaction could lock.
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
  const worn = next.filter(({ receives }) => receives >= how.maxReceives)
  const buried = buriedAtOnce(worn)
  const taken = handedOut(
    next.filter((candidate) => !worn.includes(candidate)),
    how,
  )
  const behind = candidates.filter((candidate) => !next.includes(candidate))
  const inFlight = new Set(taken.map(({ orderKey }) => orderKey))
  const freed = [...behind, ...buried, ...next.filter(({ flight }) => flight !== undefined)]
  return {
    taken,
    buried,
    hasMoreToBury: buried.length < worn.length,
    putBack: [...new Set([...behind.map(({ place }) => place), ...unlocked])],
    released: [...new Set(freed.flatMap(({ orderKey }) => orderKey ?? []))].filter(
      (key) => !inFlight.has(key),
    ),
  }
}

function buriedAtOnce(worn: readonly QueueCandidate[]): readonly QueueCandidate[] {
  let sum = 0
  return worn.slice(0, BURIED_AT_ONCE).filter(({ bytes }, n) => (sum += bytes) <= RECEIVED_BYTES || n === 0)
}

/** Chooses the messages to hand out. A suspect is handed out alone, so that it cannot harm another message. */
function handedOut(
  next: readonly QueueCandidate[],
  { limit, bytes, alone, maxReceives }: Bounds & { readonly maxReceives: number },
): readonly QueueCandidate[] {
  const [head] = next
  if (head !== undefined && alone && isSuspect(head, maxReceives)) return [head]
  const harmless = next.filter((candidate) => !isSuspect(candidate, maxReceives)).slice(0, limit)
  let sum = 0
  const fits = (candidate: QueueCandidate): boolean => (sum += candidate.bytes) <= bytes
  const end = harmless.findIndex((candidate) => !fits(candidate))
  return end < 0 ? harmless : harmless.slice(0, alone ? Math.max(end, 1) : end)
}

/** Sorts the receipts by place, and separates the messages that are part of the order of a key from all others. */
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
