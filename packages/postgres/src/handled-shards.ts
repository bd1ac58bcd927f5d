/* PostgreSQL sweeps a shard in one statement; MySQL and MariaDB find, lock and delete in statements of their own. */
import type { HandledShards, Source } from '@txbox/sql'
import { columns } from './columns.ts'
import type { garbageStatements } from './garbage-statements.ts'
import type { QueueReceiver } from './queue-receiver.ts'
import { runAtReadCommitted } from './run-alone.ts'

const FINDING = 'finding handled messages of queues'

/** See {@link HandledShards}. */
export function handledShards(
  { nextQueue, handledShard }: ReturnType<typeof garbageStatements>,
  source: Source,
  receiver: QueueReceiver,
): HandledShards {
  return {
    async nextQueue(after) {
      const { rows } = await runAtReadCommitted(source, FINDING, nextQueue, [after])
      return columns.optionalText(rows[0], 'topic')
    },
    async firstOf(queue, shards) {
      const [row] = (await runAtReadCommitted(source, FINDING, handledShard, [queue, shards])).rows
      return row && columns.number(row, 'shard')
    },
    sweep: (queue, shard, limit) => receiver.sweep(queue, shard, limit),
  }
}
