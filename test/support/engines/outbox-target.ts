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

/** A parked message. */
export interface ParkedRow {
  readonly shard: number
  readonly id: string
  readonly key: string | null
  readonly attempts: number
  readonly error: string | null
  /** Whether the message has a time for its next attempt; the others wait behind it, or are dead. */
  readonly due: boolean
  readonly dead: boolean
}

/** A shard's lease that is held and has not expired. */
export interface ShardLease {
  readonly shard: number
  readonly owner: string
  readonly term: bigint
}

/** An open transaction, as the server sees it. Two observations of the same transaction have the same id. */
export interface ServerTransaction {
  readonly id: string
  /** The statement that it is running, or ran last. */
  readonly statement: string
}

/**
 * The operations that tests of the outbox and the relay need besides `Target`. They use the database on a separate
 * connection, in autocommit.
 */
export interface OutboxTarget {
  /** The outbox as committed, by shard and number. */
  backlog(): Promise<readonly BacklogRow[]>
  /** The parked messages, by shard and place; dead letters too. */
  parked(): Promise<readonly ParkedRow[]>
  /** The number of waiting messages, in the outbox or parked; dead letters do not count. */
  backlogSize(): Promise<number>
  /** Resolves when no message waits: all have been published and settled, or are dead. */
  settled(): Promise<void>
  /** Messages of no interest to the test, in all shards. */
  fill(messages: number): Promise<void>
  leases(): Promise<readonly ShardLease[]>
  /** All leases with an owner, those of relays and expired ones included. */
  heldLeases(): Promise<number>
  /** Lets all leases expire, or all leases of one owner, as if the owner had not renewed them. */
  expireLeases(owner?: string): Promise<void>
  /** Writes a shard's lease as if an owner had just acquired it, and would never release it. */
  lend(shard: number, lease: { owner: string; term: bigint; forMs: number }): Promise<void>
  /** Open transactions of all other connections to this database. */
  transactions(): Promise<readonly ServerTransaction[]>
  /** All other connections to this database. */
  connections(): Promise<number>
  /** Lets the server end all other connections to this database. @returns how many */
  cutConnections(): Promise<number>
  sql(text: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  /** The address of the database, for a separate process. */
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
