/*
 * For MySQL and MariaDB, each placeholder needs its own value, and tables have a prefix. Statements for PostgreSQL have
 * numbered parameters, and tables are in a schema.
 */
import type { InspectionStore } from '@txbox/core/ports'
import { SHARDS } from '@txbox/core/internal'
import { SqlInspectionStore } from '@txbox/sql/stores'
import type { RootAdapter } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { errors } from '../connection/errors.ts'
import type { Tables } from '../connection/identifiers.ts'
import { inspectionStatements } from './inspection-statements.ts'
import { localInspectionStatements } from './local-inspection-statements.ts'
import { fill, microseconds, type Value } from '../connection/literals.ts'
import { withoutRowLimitAnywhere } from '../connection/time-limit-statements.ts'
import { checkRevision } from '../tables/schema-revision.ts'
import { serverFindings, tableFindings } from './server-findings.ts'

/** The number of counts in `figures`. Each takes a limit as its value. */
const COUNTS = 5

/** The number of counts in `queueFigures`. Each takes the queue and a limit as its values. */
const QUEUE_COUNTS = 5

/** The number of tables in which `nextLocal` looks for consumers. */
const LOCAL_TABLES = 3

/** The number of counts in `localFigures` before the age of the oldest message. Each takes the consumer and a limit as its values. */
const LOCAL_COUNTS = 3

/** The number of tables whose dead letters `collectable` counts together. */
const DEAD_LETTER_TABLES = 3

/** How often the key occurs in `keyEnds`. */
const KEY_PARTS = 3

export function inspectionStore(tables: Tables, root: RootAdapter, db: unknown): InspectionStore {
  const sql = { ...inspectionStatements(tables), ...localInspectionStatements(tables) }
  return new SqlInspectionStore<Value>({
    sql,
    read: columns,
    errors,
    figuresValues: (limit) => Array.from({ length: COUNTS }, () => limit),
    lagValues: (limit) => [limit, limit],
    queueValue: (queue) => ({ utf8: queue }),
    hasQueueValues: (queue, locks) => [{ utf8: queue }, locks.map((name) => ({ utf8: name }))],
    queueFiguresValues(queue, limit) {
      const name = { utf8: queue }
      const counts = Array.from({ length: QUEUE_COUNTS }, () => [name, limit]).flat()
      return [...counts, ...Array.from({ length: SHARDS }, () => name)]
    },
    consumerValue: (consumer) => ({ utf8: consumer }),
    nextLocalValues: (consumer) => Array.from({ length: LOCAL_TABLES }, () => ({ utf8: consumer })),
    localFiguresValues(consumer, limit) {
      const name = { utf8: consumer }
      const counts = Array.from({ length: LOCAL_COUNTS }, () => [name, limit]).flat()
      // The consumer occurs once for each shard of the waiting messages. The parked ones that are due are counted last.
      return [...counts, ...Array.from({ length: SHARDS }, () => name), name, limit]
    },
    // The consumer occurs once for each shard of the waiting messages, and once for the parked ones.
    oldestInLocalValues: (consumer) => Array.from({ length: SHARDS + 1 }, () => ({ utf8: consumer })),
    keyEndsValues: (queue, shard, key) =>
      Array.from({ length: KEY_PARTS }, () => [{ utf8: queue }, shard, { utf8: key }]).flat(),
    collectableValues(limit, retentionMs) {
      const retention = retentionMs === null ? null : microseconds(retentionMs)
      const [dead, records] = [
        Array.from({ length: DEAD_LETTER_TABLES }, () => retention),
        [retention, retention],
      ]
      return [limit, ...dead, limit, ...records, limit, retention, limit]
    },
    query: (text, values, timeoutMs) => root.query(db, unlimited(fill(text, values)), [], timeoutMs),
    checkRevision: (timeoutMs) => checkRevision((text) => root.query(db, text, [], timeoutMs), tables),
    serverFindings: (run) => serverFindings(run, sql),
    tableFindings: (run, longTransactionMs) => tableFindings(run, sql, tables, longTransactionMs),
  })
}

/** SHOW has no such limit. */
function unlimited(text: string): string {
  return /^\s*show\b/.test(text) ? text : withoutRowLimitAnywhere(text)
}
