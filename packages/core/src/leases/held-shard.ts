import type { Lease } from '../ports/lease-store.ts'
import type { Trust } from './lease-trust.ts'

/** A shard whose lease this relay holds, and what this relay is doing with the shard. */
export class HeldShard {
  readonly shard: number
  readonly lease: Lease
  /**
   * How many relays in a row died, or were cut off, while they held the shard. A lease that this relay let expire does
   * not count.
   */
  readonly crashes: number
  #trust: Trust
  #isBusy = false
  #isLeaving: boolean
  /** The number of batches that were passed to the publisher and are not settled. */
  #openBatches = 0
  /** The number of open batches with calls that have not ended. */
  #callingBatches = 0
  #wasCutOff = false

  constructor(
    shard: number,
    { lease, trust }: { readonly lease: Lease; readonly trust: Trust },
    { crashes, isLeaving }: { readonly crashes: number; readonly isLeaving: boolean },
  ) {
    this.shard = shard
    this.lease = lease
    this.crashes = crashes
    this.#isLeaving = isLeaving
    this.#trust = trust
  }

  /** Whether this relay may still act as the owner. */
  get isTrusted(): boolean {
    return this.#trust.holds()
  }

  /** Whether the shard will be released as soon as none of its messages is in flight. */
  get isLeaving(): boolean {
    return this.#isLeaving
  }

  /** Whether a turn of the shard is in progress. */
  get isBusy(): boolean {
    return this.#isBusy
  }

  /** Whether a turn or a call of the publisher is in progress: then the shard is not released. */
  get isAtWork(): boolean {
    return this.#isBusy || this.#openBatches > 0
  }

  /**
   * Whether a turn may begin. A turn publishes or, if the shard will be released, only settles the results of calls
   * in flight.
   */
  get mayTurn(): boolean {
    return !this.#isBusy && this.isTrusted && (!this.#isLeaving || this.#openBatches > 0)
  }

  /** Whether a turn that publishes may begin. */
  get isIdle(): boolean {
    return this.mayTurn && !this.#isLeaving
  }

  /** Whether a call was cut off, or would be if the relay ended now. That counts as a crash. */
  get isCutOff(): boolean {
    return this.#wasCutOff || this.#callingBatches > 0
  }

  renew(trust: Trust): void {
    this.#trust = trust
  }

  /** The lease is lost: this relay may no longer act as the owner. */
  lose(): void {
    this.#trust = { holds: () => false }
  }

  /** Must be called when the shard will be released: from now on its turns publish nothing. */
  leave(): void {
    this.#isLeaving = true
  }

  beginTurn(): void {
    this.#isBusy = true
  }

  endTurn(): void {
    this.#isBusy = false
  }

  /** Must be called before a batch is passed to the publisher. */
  beginBatch(): void {
    this.#openBatches++
    this.#callingBatches++
  }

  /** Must be called when the calls of a batch have ended. */
  endCalls(): void {
    this.#callingBatches--
  }

  /** Must be called when the results of a batch are settled, or are to be ignored. */
  closeBatch(): void {
    this.#openBatches--
  }

  /** Must be called when a call ended without results because the relay had to stop. */
  cutOff(): void {
    this.#wasCutOff = true
  }
}
