import type { Lease } from '@txbox/core'
import type { Trust } from './lease-trust.ts'

/** A shard whose lease this relay holds. */
export class HeldShard {
  readonly shard: number
  readonly lease: Lease
  /**
   * How many relays in a row died, or were cut off, while they held the shard; a lease that this relay let expire does
   * not count.
   */
  readonly crashes: number
  /** Whether a lane works on the shard. */
  busy = false
  /** Whether the shard will be released as soon as none of its messages is in flight. */
  leaving: boolean
  #trust: Trust
  /** Flights that are not settled, and how many of them have not ended. */
  #flights = 0
  #flying = 0
  #cutOff = false

  constructor(
    shard: number,
    { lease, trust }: { readonly lease: Lease; readonly trust: Trust },
    { crashes, leaving }: { readonly crashes: number; readonly leaving: boolean },
  ) {
    this.shard = shard
    this.lease = lease
    this.crashes = crashes
    this.leaving = leaving
    this.#trust = trust
  }

  /** Whether this relay may still act as the owner. */
  get isTrusted(): boolean {
    return this.#trust.holds()
  }

  /** Whether a turn or a call of the publisher is in progress; the shard is not released then. */
  get isAtWork(): boolean {
    return this.busy || this.#flights > 0
  }

  /** Whether a call of the publisher was cut off, or would be if the relay ended now. This counts as a crash. */
  get isCutOff(): boolean {
    return this.#cutOff || this.#flying > 0
  }

  /** Whether a turn may begin. If the shard will be released, the turn only settles the messages in flight. */
  get mayTurn(): boolean {
    return !this.busy && this.isTrusted && (!this.leaving || this.#flights > 0)
  }

  renewed(trust: Trust): void {
    this.#trust = trust
  }

  lost(): void {
    this.#trust = { holds: () => false }
  }

  /** Must be called when a call of the publisher begins. */
  takeOff(): void {
    this.#flights++
    this.#flying++
  }

  /** The calls of a flight have ended. */
  ended(): void {
    this.#flying--
  }

  /** The results of a flight are settled, or are ignored. */
  landed(): void {
    this.#flights--
  }

  /** Must be called when a call ended without results because the relay had to stop. */
  cutOff(): void {
    this.#cutOff = true
  }
}
