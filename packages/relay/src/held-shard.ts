import type { Lease } from '@txbox/core'
import type { Trust } from './lease-trust.ts'

/** A shard whose lease this relay holds. */
export class HeldShard {
  readonly shard: number
  readonly lease: Lease
  /** How many relays in a row died, or were cut off, while they held it; a lease that ran out under this relay is none. */
  readonly crashes: number
  /** A lane works on the shard. */
  busy = false
  /** To be given back as soon as nothing of the shard is in flight. */
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

  /** May this relay still act as the owner? */
  get isTrusted(): boolean {
    return this.#trust.holds()
  }

  /** A turn, or a call of the publisher, is in progress: the shard is not given away now. */
  get isAtWork(): boolean {
    return this.busy || this.#flights > 0
  }

  /** A call of the publisher has been cut off, or would be if the relay ended now: that counts as a crash. */
  get isCutOff(): boolean {
    return this.#cutOff || this.#flying > 0
  }

  /** A turn may begin: to publish, or, of a shard that is to be given back, to settle what is in flight. */
  get mayTurn(): boolean {
    return !this.busy && this.isTrusted && (!this.leaving || this.#flights > 0)
  }

  renewed(trust: Trust): void {
    this.#trust = trust
  }

  lost(): void {
    this.#trust = { holds: () => false }
  }

  /** A call of the publisher begins. */
  takeOff(): void {
    this.#flights++
    this.#flying++
  }

  /** The calls of a flight have ended. */
  ended(): void {
    this.#flying--
  }

  /** The results of a flight are settled, or count for nothing. */
  landed(): void {
    this.#flights--
  }

  /** A call ended without results because the relay had to stop. */
  cutOff(): void {
    this.#cutOff = true
  }
}
