/* PostgreSQL finds, locks, deletes and counts in one statement; MySQL and MariaDB need a transaction of several. */
import type { SubscriptionRemovalStore } from '@txbox/core/ports'
import { SqlRemovalStore, type Row } from '@txbox/sql/stores'
import type { StatementRoot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { runAtReadCommitted } from '../connection/run-alone.ts'
import { removalStatements } from './removal-statements.ts'

const DOING = 'ending a subscription'

export function removalStore(schema: string, source: StatementRoot): SubscriptionRemovalStore {
  const sql = removalStatements(schema)
  const run = async (text: string, values: readonly unknown[]): Promise<readonly Row[]> =>
    (await runAtReadCommitted(source, DOING, text, values)).rows
  return new SqlRemovalStore({
    async count({ consumer, type }, limit) {
      const [row] = await run(sql.count, [limit, consumer, type ?? null])
      return {
        subscribed: columns.flag(row, 'subscribed'),
        waiting: columns.number(row, 'waiting'),
        dead: columns.number(row, 'dead'),
      }
    },
    async end({ consumer, type }, by) {
      const [row] = await run(sql.end, [consumer, type ?? null, by])
      return columns.text(row, 'number')
    },
    async readers() {
      return (await run(sql.readers, [])).map((row) => columns.text(row, 'id'))
    },
    async discard(from, { consumer, type }, record, after, limit) {
      const of = [consumer, type ?? null, record]
      const [text, values, position] =
        from === 'waiting'
          ? [sql.discardWaiting, [...of, ...(after ?? ['-1', '0']), limit], ['shard', 'seq']]
          : [sql.discardParked, [...of, ...(after ?? ['0']), limit], ['place']]
      const [row] = await run(text, values)
      const full = columns.number(row, 'found') === limit
      return {
        removed: columns.number(row, 'removed'),
        next: full ? position.map((name) => columns.text(row, name)) : undefined,
      }
    },
  })
}
