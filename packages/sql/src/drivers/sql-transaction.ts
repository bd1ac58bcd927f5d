import type { SqlAnswer, SqlTransaction } from '@txbox/core'
import { isSqlTransaction } from '@txbox/core/internal'
import type { DriverAdapter, Engine, SqlResult } from '../adapters.ts'
import { plainValues } from '../array-text.ts'

/** Transactions of libraries that txbox does not know, wrapped by `sqlTransaction`: nothing can be monitored. */
export function sqlTransactionOn(engine: Engine): DriverAdapter<SqlTransaction> {
  return {
    name: 'sqlTransaction',
    recognises: isSqlTransaction,
    state: (tx) => (tx.isOpen === undefined ? 'unknown' : tx.isOpen() ? 'open' : 'none'),
    stateNow: (tx) => (tx.isOpen?.() === false ? 'none' : 'open'),
    monitor: () => undefined,
    sever: (tx) => tx.close?.(),
    canSever: (tx) => tx.close !== undefined,
    async query(tx, text, values) {
      return toSqlResult(await tx.query(text, engine === 'postgres' ? plainValues(values) : []))
    },
  }
}

function toSqlResult(answer: SqlAnswer | null | undefined): SqlResult {
  return {
    rows: (answer?.rows ?? []) as SqlResult['rows'],
    affected: Number(answer?.rowCount ?? Number.NaN),
  }
}
