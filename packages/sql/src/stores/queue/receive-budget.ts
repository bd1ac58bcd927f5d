import type { ReceiveRequest } from '@txbox/core/ports'

/** The maximum total size of the payloads of a receive, in bytes. A larger message is returned alone. */
export const RECEIVED_BYTES = 16 * 1024 * 1024

/**
 * A receive that has messages returns after this share of the visibility timeout, because the timeout of these messages
 * is already running.
 */
const SHARE_OF_TIMEOUT = 1 / 4

/** The limits on the messages that a round may hand out. */
export interface Bounds {
  readonly limit: number
  /** The maximum total size of the payloads, in bytes. The first message of a receive may be larger. */
  readonly bytes: number
  /** Whether the receive has no messages yet, so that a suspect may be handed out alone. */
  readonly alone: boolean
}

/** The messages, bytes and time that a receive has left. The time starts when the budget is created. */
export class ReceiveBudget {
  readonly #returnAt: number
  #limit: number
  #bytes: number
  #alone: boolean
  #hasSuspect = false

  constructor(
    { limit, visibilityTimeoutMs }: Pick<ReceiveRequest, 'limit' | 'visibilityTimeoutMs'>,
    { bytes, alone }: Pick<Bounds, 'bytes' | 'alone'> = { bytes: RECEIVED_BYTES, alone: true },
  ) {
    this.#returnAt = performance.now() + visibilityTimeoutMs * SHARE_OF_TIMEOUT
    this.#limit = limit
    this.#bytes = bytes
    this.#alone = alone
  }

  get bounds(): Bounds {
    return { limit: this.#limit, bytes: this.#bytes, alone: this.#alone }
  }

  /** Whether the receive has a message that must be handled alone. */
  get hasSuspect(): boolean {
    return this.#hasSuspect
  }

  /** Whether the receive must return. Without messages, it goes on after its time. */
  get isSpent(): boolean {
    if (this.#limit <= 0 || this.#bytes <= 0 || this.#hasSuspect) return true
    return !this.#alone && performance.now() > this.#returnAt
  }

  spend(bytes: number, isSuspect: boolean): void {
    this.#limit -= 1
    this.#bytes -= bytes
    this.#alone = false
    this.#hasSuspect ||= isSuspect
  }
}
