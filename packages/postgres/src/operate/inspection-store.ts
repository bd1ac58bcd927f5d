/*
 * Statements for PostgreSQL have numbered parameters, and tables are in a schema. For MySQL and MariaDB, each
 * placeholder needs its own value, and tables have a prefix.
 */
import type { InspectionStore } from '@txbox/core/ports'
import { SqlInspectionStore } from '@txbox/sql/stores'
import type { RootAdapter } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { errors } from '../connection/errors.ts'
import { inspectionStatements } from './inspection-statements.ts'
import { localInspectionStatements } from './local-inspection-statements.ts'
import { checkRevision } from '../tables/schema-revision.ts'
import { serverFindings, tableFindings } from './server-findings.ts'

export function inspectionStore(schema: string, root: RootAdapter, db: unknown): InspectionStore {
  const sql = { ...inspectionStatements(schema), ...localInspectionStatements(schema) }
  return new SqlInspectionStore<unknown>({
    sql,
    read: columns,
    errors,
    figuresValues: (limit) => [limit],
    lagValues: (limit) => [limit],
    queueValue: (queue) => queue,
    hasQueueValues: (queue, locks) => [queue, locks],
    queueFiguresValues: (queue, limit) => [limit, queue],
    consumerValue: (consumer) => consumer,
    nextLocalValues: (consumer) => [consumer],
    localFiguresValues: (consumer, limit) => [limit, consumer],
    oldestInLocalValues: (consumer) => [consumer],
    keyEndsValues: (queue, shard, key) => [queue, shard, key],
    collectableValues: (limit, retentionMs) => [limit, retentionMs],
    query: (text, values, timeoutMs) => root.query(db, text, values, timeoutMs),
    checkRevision: (timeoutMs) =>
      checkRevision((text, values = []) => root.query(db, text, values, timeoutMs), schema),
    serverFindings: (run) => serverFindings(run, sql),
    tableFindings: (run, longTransactionMs) => tableFindings(run, sql, schema, longTransactionMs),
  })
}
