/* PostgreSQL selects, changes and returns dead letters in one statement; MySQL and MariaDB need a transaction of several. */
import type { DeadLetterStore } from '@txbox/core/ports'
import { SqlDeadLetterStore, pageOf } from '@txbox/sql/stores'
import type { StatementRoot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { deadLetterStatements } from './dead-letter-statements.ts'
import { runAlone } from '../connection/run-alone.ts'

/** A place after every message. */
const LAST_PLACE = '9223372036854775807'

/** @param of the stored queue whose dead letters these are, or whether they are those of the local consumers. */
export function deadLetterStore(
  schema: string,
  source: StatementRoot,
  { queue, local = false }: { readonly queue?: string; readonly local?: boolean },
): DeadLetterStore {
  const sql = deadLetterStatements(schema, local ? 'local_parked' : queue === undefined ? 'parked' : 'queue')
  return new SqlDeadLetterStore({
    read: columns,
    async select(call, doing, { ids, topic, type, key, error, after, consumer }, limit, by) {
      // In the table of the stored queues, the topic is the name of the queue, so no other topic matches.
      if (queue !== undefined && topic !== undefined && topic !== queue) return { rows: [], last: undefined }
      const position = [after?.id ?? null, after === undefined ? null : (after.place ?? LAST_PLACE)]
      const filter = [ids ?? null, queue ?? topic ?? null, type ?? null, key ?? null, ...position]
      const ofConsumer = local ? [consumer ?? null] : []
      const values = [...filter, limit, error ?? null, ...ofConsumer, ...(call === 'redrive' ? [by] : [])]
      return pageOf((await runAlone(source, doing, sql[call], values)).rows, limit)
    },
    async ofId(call, doing, id, parked, limit, consumer) {
      const within = local ? [consumer ?? null] : queue === undefined ? [] : [queue]
      const values = [id, parked, limit, ...within]
      return (await runAlone(source, doing, sql[call], values)).rows
    },
    payloadOf: (row) => Buffer.from(columns.text(row, 'payload'), 'hex'),
  })
}
