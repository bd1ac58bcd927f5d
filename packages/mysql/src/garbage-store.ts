/* MySQL and MariaDB find, lock and remove rows in a transaction of three statements; PostgreSQL needs one statement. */
import type { GarbageStore } from '@txbox/core'
import { SqlGarbageStore, type RemovalByAge, type Row } from '@txbox/sql'
import { columns } from './columns.ts'
import { isTimeout } from './errors.ts'
import type { garbageStatements } from './garbage-statements.ts'
import { microseconds, type Value } from './literals.ts'
import { placeOf } from './queue-rows.ts'
import type { QueueReceiver } from './queue-receiver.ts'
import { runBounded, runTogether, type Source } from './run-alone.ts'
import type { ByEngine } from './server.ts'

type Sql = ReturnType<typeof garbageStatements>

/** The three statements that remove rows of one kind. */
interface Removing {
  readonly find: keyof Sql
  readonly lock: keyof Sql
  readonly remove: keyof Sql
  /** Whether the statement that locks also checks the age of the row. */
  readonly locksByAge: boolean
  /** Returns the primary key of a row. */
  readonly keyOf: (row: Row) => unknown
}

const REMOVING: Readonly<Record<RemovalByAge, Removing>> = {
  removeExpiredClaims: {
    find: 'findExpiredClaims',
    lock: 'lockExpiredClaims',
    remove: 'removeClaims',
    locksByAge: false,
    keyOf: (row) => [columns.text(row, 'consumer'), columns.text(row, 'key')],
  },
  removeDeadLetters: {
    find: 'findDeadLetters',
    lock: 'lockDeadLetters',
    remove: 'removeDeadLetters',
    locksByAge: true,
    keyOf: placeOf,
  },
  removeQueueDeadLetters: {
    find: 'findQueueDeadLetters',
    lock: 'lockQueueDeadLetters',
    remove: 'removeQueueDeadLetters',
    locksByAge: true,
    keyOf: placeOf,
  },
  removeRedrives: {
    find: 'findRedrives',
    lock: 'lockRedrives',
    remove: 'removeRedrives',
    locksByAge: false,
    keyOf: (row) => [columns.text(row, 'id'), columns.text(row, 'at'), columns.text(row, 'place')],
  },
  removeBufferedDeadLetters: {
    find: 'findBufferedDeadLetters',
    lock: 'lockBufferedDeadLetters',
    remove: 'removeBufferedDeadLetters',
    locksByAge: true,
    keyOf: (row) => [
      columns.text(row, 'consumer'),
      columns.text(row, 'key'),
      columns.text(row, 'from_version'),
    ],
  },
}

/** Creates the store of the garbage collector for MySQL and MariaDB. */
export function garbageStore(
  statements: ByEngine<Sql>,
  source: Source,
  receiver: QueueReceiver,
): GarbageStore {
  const sqlOf = async (): Promise<Sql> => statements[(await source.server()).engine]
  const find = async (doing: string, text: string, values: readonly Value[]): Promise<Row | undefined> =>
    (await runBounded(source, doing, text, values)).rows[0]
  return new SqlGarbageStore({
    isTimeout,
    async remove(call, doing, { limit, from, retentionMs }) {
      const { locksByAge, keyOf, ...names } = REMOVING[call]
      const sql = await sqlOf()
      const age = retentionMs === undefined ? [] : [microseconds(retentionMs)]
      return runTogether(source, doing, async (run) => {
        const { rows: found } = await run(sql[names.find], [...age, BigInt(from ?? 0), limit])
        if (found.length === 0) return { removed: 0, more: false, next: undefined }
        const keysOf = (rows: readonly Row[]): string => JSON.stringify(rows.map(keyOf))
        const { rows: locked } = await run(sql[names.lock], [keysOf(found), ...(locksByAge ? age : [])])
        if (locked.length > 0) await run(sql[names.remove], [keysOf(locked)])
        const next = columns.text(found.at(-1), 'instant')
        // Another collector has locked all rows of one instant, and will continue after them.
        const stuck = locked.length === 0 && next === from
        return { removed: locked.length, more: found.length === limit && !stuck, next }
      })
    },
    async record(doing, { inbox, deadLetters, durationMs }) {
      const sql = await sqlOf()
      await runTogether(source, doing, async (run) => {
        const { rows } = await run(sql.findRecord, [])
        if (rows.length > 0) await run(sql.record, [inbox, deadLetters, Math.round(durationMs)])
      })
    },
    // Both engines have the same text for these two statements.
    async nextQueue(doing, after) {
      const row = await find(doing, statements.mysql.nextQueue, [{ utf8: after }])
      return row && columns.key(row, 'topic')
    },
    async handledShard(doing, queue, shards) {
      const row = await find(doing, statements.mysql.handledShard, [{ utf8: queue }, shards])
      return row && columns.number(row, 'shard')
    },
    sweep: (queue, shard, limit) => receiver.sweep(queue, shard, limit),
  })
}
