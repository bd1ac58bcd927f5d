/*
 * PostgreSQL finds, locks and removes rows in one statement; MySQL and MariaDB need a transaction of three statements.
 */
import type { GarbageStore } from '@txbox/core/ports'
import { SqlGarbageStore, type Row } from '@txbox/sql/stores'
import type { StatementRoot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { isTimeout } from '../connection/errors.ts'
import { garbageStatements } from './garbage-statements.ts'
import { QueueReceiver } from '../queue/queue-receiver.ts'
import { runAlone, runAtReadCommitted } from '../connection/run-alone.ts'

export function garbageStore(schema: string, source: StatementRoot): GarbageStore {
  const sql = garbageStatements(schema)
  const receiver = new QueueReceiver(schema, source)
  const find = async (doing: string, text: string, values: readonly unknown[]): Promise<Row | undefined> =>
    (await runAtReadCommitted(source, doing, text, values)).rows[0]
  return new SqlGarbageStore({
    isTimeout,
    async remove(call, doing, { limit, from = '0', retentionMs }) {
      const values = [limit, from, ...(retentionMs === undefined ? [] : [retentionMs])]
      const { rows } = await runAlone(source, doing, sql[call], values)
      const removed = columns.number(rows[0], 'removed')
      return { removed, more: removed === limit, next: columns.optionalText(rows[0], 'next') }
    },
    record: (doing, { inbox, deadLetters, durationMs }) =>
      runAlone(source, doing, sql.record, [inbox, deadLetters, Math.round(durationMs)]),
    nextQueue: async (doing, after) =>
      columns.optionalText(await find(doing, sql.nextQueue, [after]), 'topic'),
    async handledShard(doing, queue, shards) {
      const row = await find(doing, sql.handledShard, [queue, shards])
      return row && columns.number(row, 'shard')
    },
    sweep: (queue, shard, limit) => receiver.sweep(queue, shard, limit),
  })
}
