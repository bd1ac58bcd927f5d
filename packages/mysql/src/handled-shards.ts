/* MySQL and MariaDB find, lock and delete in statements of their own; PostgreSQL sweeps a shard in one statement. */
import type { HandledShards } from '@txbox/sql'
import { columns } from './columns.ts'
import type { garbageStatementsByEngine } from './garbage-statements.ts'
import type { QueueReceiver } from './queue-receiver.ts'
import { runBounded, type Source } from './run-alone.ts'

const FINDING = 'finding handled messages of queues'

/** See {@link HandledShards}. The statements are the same for both engines. */
export function handledShards(
  { mysql: { nextQueue, handledShard } }: ReturnType<typeof garbageStatementsByEngine>,
  source: Source,
  receiver: QueueReceiver,
): HandledShards {
  return {
    async nextQueue(after) {
      const [row] = (await runBounded(source, FINDING, nextQueue, [{ utf8: after }])).rows
      return row && columns.key(row, 'topic')
    },
    async firstOf(queue, shards) {
      const [row] = (await runBounded(source, FINDING, handledShard, [{ utf8: queue }, shards])).rows
      return row && columns.number(row, 'shard')
    },
    sweep: (queue, shard, limit) => receiver.sweep(queue, shard, limit),
  }
}
