import type { SqlAnswer, SqlTransaction } from '@txbox/core'
import { identityOf, isSqlTransaction } from '@txbox/core/internal'
import type { DriverAdapter, Engine, SqlResult } from '../adapters.ts'
import { plainValues } from '../array-text.ts'
import { withItsColumns } from './renamed-columns.ts'
import { pgStatements } from './pg-statements.ts'
import { HiddenMonitor } from '../monitors/hidden-monitor.ts'

/**
 * Transactions of libraries that txbox does not know, wrapped by `sqlTransaction`: txbox sees none of a handler's
 * statements. `isOpen` reports that a COMMIT or ROLLBACK of the library has ended the transaction. On MySQL, only the
 * server knows whether an error has rolled back a transaction; PostgreSQL refuses all statements after an error.
 */
export function sqlTransactionOn(engine: Engine): DriverAdapter<SqlTransaction> {
  const monitors = new WeakMap<object, HiddenMonitor>()
  const monitorOf = (tx: SqlTransaction): HiddenMonitor => {
    const identity = identityOf(tx)
    const monitor = monitors.get(identity) ?? new HiddenMonitor(async (sql) => tx.query(sql, []))
    monitors.set(identity, monitor)
    return monitor
  }
  return {
    name: 'sqlTransaction',
    recognises: isSqlTransaction,
    hidesState: true,
    identityOf,
    state(tx) {
      if (tx.isOpen?.() === false) return 'none'
      return tx.isOpen === undefined || engine === 'mysql' ? 'unknown' : 'open'
    },
    stateNow: (tx) => (tx.isOpen?.() === false ? 'none' : 'open'),
    monitor: (tx) => (engine === 'mysql' ? monitorOf(tx) : undefined),
    sever: (tx) => tx.close?.(),
    canSever: (tx) => tx.close !== undefined,
    ...(engine === 'postgres' && {
      limitIdleTime: async (tx: SqlTransaction, milliseconds: number) =>
        tx.query(pgStatements.limitIdleTime(milliseconds), []),
    }),
    async query(tx, text, values) {
      const result = toSqlResult(await tx.query(text, engine === 'postgres' ? plainValues(values) : []))
      return { ...result, rows: withItsColumns(result.rows, text, 'The library behind sqlTransaction') }
    },
  }
}

function toSqlResult(answer: SqlAnswer | null | undefined): SqlResult {
  return {
    rows: (answer?.rows ?? []) as SqlResult['rows'],
    affected: Number(answer?.rowCount ?? Number.NaN),
  }
}
