import { beforeAll, beforeEach, afterAll } from 'vitest'
import { MysqlOutboxTarget } from './mysql-outbox-target.ts'
import { PgliteOutboxTarget, PgliteTarget } from './pglite-target.ts'
import { PostgresOutboxTarget } from './postgres-outbox-target.ts'
import type { Row, Target } from './target.ts'

/** A message that waits in the outbox. */
export interface BacklogRow {
  readonly shard: number
  readonly seq: string
  readonly id: string
  readonly key: string | null
}

/** A message that may not go now. */
export interface ParkedRow {
  readonly shard: number
  readonly id: string
  readonly key: string | null
  readonly attempts: number
  readonly error: string | null
  /** It will be tried, sooner or later; others wait behind it, or are dead. */
  readonly due: boolean
  readonly dead: boolean
}

/** A shard's lease that is held and has not expired. */
export interface ShardLease {
  readonly shard: number
  readonly owner: string
  readonly term: bigint
}

/** Somebody's open transaction, as the server sees it. Two observations of the same one have the same id. */
export interface ServerTransaction {
  readonly id: string
  /** The one that it carries out, or carried out last. */
  readonly statement: string
}

/**
 * What tests of the outbox and the relay ask of an engine, beside `Target`. It looks at the database from a connection
 * of its own, in autocommit.
 */
export interface OutboxTarget {
  /** The outbox as committed, by shard and number. */
  backlog(): Promise<readonly BacklogRow[]>
  /** The parked messages, by shard and place; dead letters too. */
  parked(): Promise<readonly ParkedRow[]>
  /** How many wait, in the outbox or parked; dead letters do not. */
  backlogSize(): Promise<number>
  /** Resolves when none waits: all have been published and settled, or are dead. */
  settled(): Promise<void>
  /** Messages of no interest to the test, in all shards. */
  fill(messages: number): Promise<void>
  leases(): Promise<readonly ShardLease[]>
  /** All leases that are held, relays' own too, also those that have expired. */
  heldLeases(): Promise<number>
  /** Lets all leases expire, or all of one owner, as if he had given no sign of life. */
  expireLeases(owner?: string): Promise<void>
  /** A shard's lease as one leaves it who got it just now, and will not give it back. */
  lend(shard: number, lease: { owner: string; term: bigint; forMs: number }): Promise<void>
  /** Open transactions of all others in this database. */
  transactions(): Promise<readonly ServerTransaction[]>
  /** Connections of all others to this database. */
  connections(): Promise<number>
  /** The server ends all connections of others to this database. @returns how many */
  cutConnections(): Promise<number>
  sql(text: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  /** For a process of its own that connects to the same database. */
  url(): string
  /** Empties the outbox and forgets all leases. */
  clear(): Promise<void>
  open(): Promise<void>
  close(): Promise<void>
}

function outboxTargetOf(target: Target): OutboxTarget {
  if (target instanceof PgliteTarget) return new PgliteOutboxTarget(target)
  return target.engine === 'postgres' ? new PostgresOutboxTarget(target) : new MysqlOutboxTarget(target)
}

/** The outbox of a test file's database, empty at the start of each test. */
export function useOutboxTarget(
  target: Target,
  options: { migrated: boolean } = { migrated: true },
): OutboxTarget {
  const outbox = outboxTargetOf(target)
  beforeAll(() => outbox.open())
  if (options.migrated) beforeEach(() => outbox.clear())
  afterAll(() => outbox.close())
  return outbox
}
