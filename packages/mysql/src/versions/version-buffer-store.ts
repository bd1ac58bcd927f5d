/*
 * MySQL and MariaDB return only the number of rows that a statement wrote, and report an existing key as an error;
 * PostgreSQL returns the rows.
 */
import type { Session } from '@txbox/core'
import type { VersionBufferStore, VersionChain } from '@txbox/core/ports'
import { BUFFERING, versionBufferReads } from '@txbox/sql/stores'
import type { SqlResult } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { DUPLICATE_KEY, numberOf } from '../connection/errors.ts'
import { microseconds, type Value } from '../connection/literals.ts'
import { assertInTransaction, execute } from '../connection/session.ts'
import type { versionBufferStatements } from './version-buffer-statements.ts'

type Statements = ReturnType<typeof versionBufferStatements>

/** The tables of the version buffer in MySQL and MariaDB. {@link VersionBufferStore} documents the methods. */
export function versionBufferStore(sql: Statements): VersionBufferStore {
  const run = (session: Session, statement: keyof Statements, values: readonly Value[]): Promise<SqlResult> =>
    execute(session, BUFFERING, sql[statement], values)
  return {
    ...versionBufferReads<Value>({
      read: columns,
      rows: async (session, statement, values) => (await run(session, statement, values)).rows,
      nameValue: (name) => Buffer.from(name),
      ageValue: microseconds,
      deadValues: ({ consumer, key = null, afterKey, afterFrom, limit }) => [
        consumer,
        key,
        key,
        afterKey,
        afterKey,
        afterFrom,
        limit,
      ],
    }),
    async lock(session, chain, initial) {
      await assertInTransaction(session)
      await run(session, 'beginChain', [...keyOf(chain), initial])
      const { rows } = await run(session, 'position', keyOf(chain))
      return { version: columns.bigint(rows[0], 'version'), waiting: columns.number(rows[0], 'waiting') }
    },
    async move(session, chain, { from, to, waiting }) {
      return (await run(session, 'move', [to, waiting, ...keyOf(chain), from])).affected !== 0
    },
    async store(session, chain, { from, to, kind, payload }) {
      try {
        await run(session, 'store', [...keyOf(chain), from, to, kind, Buffer.from(payload)])
        return undefined
      } catch (error) {
        if (numberOf(error) !== DUPLICATE_KEY) throw error
      }
      const { rows } = await run(session, 'read', [...keyOf(chain), from])
      return { to: columns.bigint(rows[0], 'to_version'), dead: columns.flag(rows[0], 'dead') }
    },
    async bury(session, chain, from, reason) {
      if (from.length > 0) await run(session, 'bury', [reason, ...keyOf(chain), from])
    },
    async remove(session, chain, from, { dead }) {
      if (from.length === 0) return 0
      const statement = dead ? 'removeDead' : 'removeWaiting'
      return (await run(session, statement, [...keyOf(chain), from])).affected
    },
  }
}

function keyOf({ consumer, key }: VersionChain): readonly Value[] {
  return [Buffer.from(consumer), Buffer.from(key)]
}
