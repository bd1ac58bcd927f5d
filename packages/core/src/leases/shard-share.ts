import { SHARDS } from '../sending/shards.ts'

/** For how many lengths of a lease a shard that nobody else took is held beside the even share. */
const EXTRA_LEASES = 12

/**
 * The shards that one relay holds are an even share of all shards, and besides these, for a while, shards that no other relay takes:
 * a relay cannot take a shard again while one of its calls, made under a lease that it has lost, still hangs. Later, these shards count
 * like the others, and as many shards are given away: the other relay can take those in which no call of it hangs. What nobody takes
 * is taken again, after the length of a lease.
 */
export class ShardShare {
  readonly #owner: string
  readonly #leaseMs: number
  /** Shards that were taken beyond the even share, with the times until which they do not count, on the monotonic clock. */
  readonly #extra = new Map<number, number>()
  /** The times since which shards have had no owner, on the monotonic clock. */
  #unownedSince: ReadonlyMap<number, number> = new Map()
  #members = ''

  constructor(owner: string, leaseMs: number) {
    this.#owner = owner
    this.#leaseMs = leaseMs
  }

  /**
   * The even share. If the shards cannot be divided evenly, the first relays in the order of their names get one more.
   * When relays start or stop, extra shards begin to count like the others.
   */
  size(members: readonly string[]): number {
    const all = [...new Set([...members, this.#owner])].sort()
    const names = all.join('\n')
    if (names !== this.#members) this.#extra.clear()
    this.#members = names
    return Math.floor(SHARDS / all.length) + (all.indexOf(this.#owner) < SHARDS % all.length ? 1 : 0)
  }

  /** Whether the shard counts toward the even share. */
  counts(shard: number, now: number): boolean {
    return (this.#extra.get(shard) ?? -Infinity) <= now
  }

  /** Whether the shard was taken beyond the even share, because nobody else took it. */
  isExtra(shard: number): boolean {
    return this.#extra.has(shard)
  }

  /** @returns the shards that have had no owner for the length of a lease, as far as this relay has seen. */
  abandoned(unowned: readonly number[], now: number): readonly number[] {
    this.#unownedSince = new Map(unowned.map((shard) => [shard, this.#unownedSince.get(shard) ?? now]))
    return unowned.filter((shard) => now - this.#unownedSince.get(shard)! > this.#leaseMs)
  }

  /** Must be called when this relay does not look for shards without an owner. */
  forgetUnowned(): void {
    this.#unownedSince = new Map()
  }

  addExtra(shard: number, now: number): void {
    this.#extra.set(shard, now + EXTRA_LEASES * this.#leaseMs)
  }

  lose(shard: number): void {
    this.#extra.delete(shard)
  }
}
