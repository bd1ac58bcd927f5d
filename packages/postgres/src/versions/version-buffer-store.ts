/*
 * PostgreSQL returns the rows that a statement wrote; MySQL and MariaDB return only their number, and report an
 * existing key as an error.
 */
import type { Session } from '@txbox/core'
import type { VersionBufferStore } from '@txbox/core/ports'
import { BUFFERING, versionBufferReads, type Row } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { execute, watchFromNow } from '../connection/session.ts'
import type { versionBufferStatements } from './version-buffer-statements.ts'

type Statements = ReturnType<typeof versionBufferStatements>

/** The tables of the version buffer in PostgreSQL. {@link VersionBufferStore} documents the methods. */
export function versionBufferStore(sql: Statements): VersionBufferStore {
  const rows = async (
    session: Session,
    statement: keyof Statements,
    values: readonly unknown[],
  ): Promise<readonly Row[]> => (await execute(session, BUFFERING, sql[statement], values)).rows
  return {
    ...versionBufferReads<string | null>({
      read: columns,
      rows,
      nameValue: (name) => name,
      ageValue: (ageMs) => ageMs,
      deadValues: ({ consumer, key, afterKey, afterFrom, limit }) => [
        consumer,
        key ?? null,
        afterKey,
        String(afterFrom),
        limit,
      ],
    }),
    async lock(session, { consumer, key }, initial) {
      watchFromNow(session)
      const [row] = await rows(session, 'lock', [consumer, key, String(initial)])
      return { version: columns.bigint(row, 'version'), waiting: columns.number(row, 'waiting') }
    },
    async move(session, { consumer, key }, { from, to, waiting }) {
      const values = [consumer, key, String(from), String(to), waiting]
      return (await rows(session, 'move', values)).length > 0
    },
    async store(session, { consumer, key }, { from, to, kind, payload }) {
      const values = [consumer, key, String(from), String(to), kind, payload]
      for (;;) {
        const [stored] = await rows(session, 'store', values)
        if (stored !== undefined) return undefined
        const [found] = await rows(session, 'read', values.slice(0, 3))
        // A garbage collector does not take the lock of the chain, so it may have removed a dead letter in between.
        if (found !== undefined)
          return { to: columns.bigint(found, 'to_version'), dead: columns.flag(found, 'dead') }
      }
    },
    async bury(session, { consumer, key }, from, reason) {
      await rows(session, 'bury', [consumer, key, from.map(String), reason])
    },
    async remove(session, { consumer, key }, from, { dead }) {
      const values = [consumer, key, from.map(String), dead ? 'dead' : 'waiting']
      return (await rows(session, 'remove', values)).length
    },
  }
}
