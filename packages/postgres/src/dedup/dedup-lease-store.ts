/* PostgreSQL returns the rows that a statement has changed; MySQL and MariaDB count them, and an existing row is an error. */
import type { DedupLeaseStore, DedupOwner } from '@txbox/core/ports'
import { SqlDedupLeaseStore, type NewLease } from '@txbox/sql/stores'
import type { StatementRoot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { runAtReadCommitted } from '../connection/run-alone.ts'
import { dedupLeaseStatements } from './dedup-lease-statements.ts'

export function dedupLeaseStore(schema: string, source: StatementRoot): DedupLeaseStore {
  const sql = dedupLeaseStatements(schema)
  const changes = async (doing: string, text: string, values: readonly unknown[]): Promise<boolean> =>
    (await runAtReadCommitted(source, doing, text, values)).rows.length > 0
  const written = (owner: DedupOwner, { leaseMs, contentHash }: NewLease): readonly unknown[] => [
    ...ownerOf(owner),
    interval(leaseMs),
    contentHash === undefined ? null : Buffer.from(contentHash).toString('hex'),
  ]
  return new SqlDedupLeaseStore({
    read: columns,
    insert: (doing, owner, lease) => changes(doing, sql.begin, written(owner, lease)),
    renew: (doing, owner, lease) => changes(doing, sql.renew, written(owner, lease)),
    find: async (doing, owner) => (await runAtReadCommitted(source, doing, sql.read, ownerOf(owner))).rows[0],
    complete: (doing, owner, { retentionMs, result }) =>
      changes(doing, sql.complete, [...ownerOf(owner), interval(retentionMs), result ?? null]),
    release: (doing, owner) => changes(doing, sql.release, ownerOf(owner)),
    extend: (doing, owner, leaseMs) => changes(doing, sql.extend, [...ownerOf(owner), interval(leaseMs)]),
  })
}

function ownerOf({ consumer, key, token }: DedupOwner): readonly string[] {
  return [consumer, key, token]
}

function interval(ms: number): string {
  return `${ms} milliseconds`
}
