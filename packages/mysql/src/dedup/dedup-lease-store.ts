/* MySQL and MariaDB count the rows that a statement has changed, and an existing row is an error; PostgreSQL returns the rows. */
import type { DedupLeaseStore, DedupOwner } from '@txbox/core/ports'
import { SqlDedupLeaseStore } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { DUPLICATE_KEY, hasNumber } from '../connection/errors.ts'
import type { Tables } from '../connection/identifiers.ts'
import { microseconds, type Value } from '../connection/literals.ts'
import { runBounded, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { dedupLeaseStatements } from './dedup-lease-statements.ts'

export function dedupLeaseStore(tables: Tables, source: MysqlStatementRoot): DedupLeaseStore {
  const sql = dedupLeaseStatements(tables)
  const changes = async (doing: string, text: string, values: readonly Value[]): Promise<boolean> =>
    (await runBounded(source, doing, text, values)).affected > 0
  return new SqlDedupLeaseStore({
    read: columns,
    async insert(doing, owner, { leaseMs, contentHash }) {
      const values = [...ownerOf(owner), microseconds(leaseMs), contentHash ?? null]
      try {
        return await changes(doing, sql.begin, values)
      } catch (error) {
        if (!hasNumber(error, DUPLICATE_KEY)) throw error
        return false
      }
    },
    renew: (doing, owner, { leaseMs, contentHash }) =>
      changes(doing, sql.renew, [
        tokenOf(owner),
        microseconds(leaseMs),
        contentHash ?? null,
        ...keyOf(owner),
      ]),
    find: async (doing, owner) =>
      (await runBounded(source, doing, sql.read, [tokenOf(owner), ...keyOf(owner)])).rows[0],
    complete: (doing, owner, { retentionMs, result }) =>
      changes(doing, sql.complete, [microseconds(retentionMs), result ?? null, ...ownerOf(owner)]),
    release: (doing, owner) => changes(doing, sql.release, ownerOf(owner)),
    extend: (doing, owner, leaseMs) => changes(doing, sql.extend, [microseconds(leaseMs), ...ownerOf(owner)]),
  })
}

function keyOf({ consumer, key }: DedupOwner): readonly Value[] {
  return [{ utf8: consumer }, { utf8: key }]
}

function tokenOf({ token }: DedupOwner): Buffer {
  return Buffer.from(token.replaceAll('-', ''), 'hex')
}

function ownerOf(owner: DedupOwner): readonly Value[] {
  return [...keyOf(owner), tokenOf(owner)]
}
