/* MySQL and MariaDB have a value for each place, and a prefix; PostgreSQL has numbered parameters and a schema. */
import type { InspectionStore } from '@txbox/core'
import { SHARDS } from '@txbox/core/internal'
import { SqlInspectionStore, type RootAdapter } from '@txbox/sql'
import { columns } from './columns.ts'
import { errors } from './errors.ts'
import type { Tables } from './identifiers.ts'
import type { inspectionStatements } from './inspection-statements.ts'
import { fill, microseconds, type Value } from './literals.ts'
import { checkRevision } from './schema-revision.ts'
import { serverFindings } from './server-findings.ts'

/** The number of counts in `figures`, each with a limit. */
const COUNTS = 5

/** The number of counts in `queueFigures`, each of a queue and with a limit. */
const QUEUE_COUNTS = 5

/** How often `keyEnds` names the key. */
const KEY_PARTS = 3

/** Figures of MySQL and MariaDB. */
export function inspectionStore(
  sql: ReturnType<typeof inspectionStatements>,
  { root, db, tables }: { readonly root: RootAdapter; readonly db: unknown; readonly tables: Tables },
): InspectionStore {
  return new SqlInspectionStore<Value>({
    sql,
    read: columns,
    errors,
    figuresValues: (limit) => Array.from({ length: COUNTS }, () => limit),
    queueValue: (queue) => ({ utf8: queue }),
    queueFiguresValues(queue, limit) {
      const name = { utf8: queue }
      const counts = Array.from({ length: QUEUE_COUNTS }, () => [name, limit]).flat()
      return [...counts, ...Array.from({ length: SHARDS }, () => name)]
    },
    keyEndsValues: (queue, shard, key) =>
      Array.from({ length: KEY_PARTS }, () => [{ utf8: queue }, shard, { utf8: key }]).flat(),
    collectableValues(limit, retentionMs) {
      const retention = retentionMs === null ? null : microseconds(retentionMs)
      return [limit, retention, retention, limit, retention, limit, retention, limit]
    },
    query: (text, values, timeoutMs) => root.query(db, fill(text, values), [], timeoutMs),
    checkRevision: (timeoutMs) => checkRevision((text) => root.query(db, text, [], timeoutMs), tables),
    findings: (run, longTransactionMs) => serverFindings(run, sql, tables, longTransactionMs),
  })
}
