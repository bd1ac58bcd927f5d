/* MySQL and MariaDB find, lock and remove rows in a transaction of three statements; PostgreSQL needs one statement. */
import type { GarbageStore } from '@txbox/core/ports'
import { SqlGarbageStore, type RemovalByAge, type Row } from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { columns } from '../connection/columns.ts'
import { isTimeout } from '../connection/errors.ts'
import { garbageStatements } from './garbage-statements.ts'
import { microseconds, type Value } from '../connection/literals.ts'
import { QueueReceiver } from '../queue/queue-receiver.ts'
import { runBounded, runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { byEngine } from '../connection/server.ts'

type Sql = ReturnType<typeof garbageStatements>

/**
 * How rows of one kind are removed, by three statements: `find` and `lock` with the name of the kind, and the one named
 * like the call.
 */
interface Removing {
  readonly rows:
    | 'ExpiredClaims'
    | 'ExpiredLeases'
    | 'DeadLetters'
    | 'QueueDeadLetters'
    | 'LocalDeadLetters'
    | 'Redrives'
    | 'Removals'
    | 'BufferedDeadLetters'
  /** Whether the statement that locks also checks the age of the row. */
  readonly locksByAge: boolean
  /** The columns of the primary key. */
  readonly key: readonly string[]
}

const REMOVING: Readonly<Record<RemovalByAge, Removing>> = {
  removeExpiredClaims: { rows: 'ExpiredClaims', locksByAge: false, key: ['consumer', 'key'] },
  removeExpiredLeases: { rows: 'ExpiredLeases', locksByAge: false, key: ['consumer', 'key'] },
  removeDeadLetters: { rows: 'DeadLetters', locksByAge: true, key: ['place'] },
  removeQueueDeadLetters: { rows: 'QueueDeadLetters', locksByAge: true, key: ['place'] },
  removeLocalDeadLetters: { rows: 'LocalDeadLetters', locksByAge: true, key: ['place'] },
  removeRemovals: { rows: 'Removals', locksByAge: false, key: ['number'] },
  removeRedrives: { rows: 'Redrives', locksByAge: false, key: ['id', 'at', 'place'] },
  removeBufferedDeadLetters: {
    rows: 'BufferedDeadLetters',
    locksByAge: true,
    key: ['consumer', 'key', 'from_version'],
  },
}

export function garbageStore(tables: Tables, source: MysqlStatementRoot): GarbageStore {
  const statements = byEngine(garbageStatements, tables)
  const receiver = new QueueReceiver(tables, source)
  const sqlOf = async (): Promise<Sql> => statements[(await source.server()).engine]
  const find = async (doing: string, text: string, values: readonly Value[]): Promise<Row | undefined> =>
    (await runBounded(source, doing, text, values)).rows[0]
  return new SqlGarbageStore({
    isTimeout,
    async remove(call, doing, { limit, from, retentionMs }) {
      const { rows: kind, locksByAge, key } = REMOVING[call]
      const sql = await sqlOf()
      const age = retentionMs === undefined ? [] : [microseconds(retentionMs)]
      return runTogether(source, doing, async (run) => {
        const { rows: found } = await run(sql[`find${kind}`], [...age, BigInt(from ?? 0), limit])
        if (found.length === 0) return { removed: 0, more: false, next: undefined }
        const { rows: locked } = await run(sql[`lock${kind}`], [
          keysOf(found, key),
          ...(locksByAge ? age : []),
        ])
        if (locked.length > 0) await run(sql[call], [keysOf(locked, key)])
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

/** Returns the keys of rows as JSON: a key of one column as its value, any other as a list. */
function keysOf(rows: readonly Row[], names: readonly string[]): string {
  const keys = rows.map((row) => names.map((name) => columns.text(row, name)))
  return JSON.stringify(names.length === 1 ? keys.flat() : keys)
}
