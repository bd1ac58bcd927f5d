/** The prefixes of the names of leases of one kind. */
export interface LeaseNames {
  readonly shards: string
  /** Each owner holds a lease of its own, which shows the others that it is alive. */
  readonly members: string
  /** A prefix that the two have, and no other lease: then one statement reads both. */
  readonly both?: string
}

/** `outbox/<shard>` and `relay/<owner>`. */
export const RELAY_LEASES: LeaseNames = { shards: 'outbox/', members: 'relay/' }

/**
 * `local/<consumer>/<shard>` and `local-member/<consumer>/<owner>`. Names of consumers may contain slashes, so a lease belongs to
 * a consumer only if its whole name does.
 */
export const LOCAL_LEASES: LeaseNames = { shards: 'local/', members: 'local-member/', both: 'local' }
