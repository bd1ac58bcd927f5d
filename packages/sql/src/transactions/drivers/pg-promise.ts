import { propertyOf } from '@txbox/core/internal'
import type { DriverAdapter } from '../adapters.ts'
import { hasFunction } from '../members.ts'
import { withLiterals } from './postgres-literals.ts'
import { outsideTransaction } from './hidden-errors.ts'
import { hiddenStatements } from './hidden-statements.ts'
import { pgStatements } from './pg-statements.ts'

/** The part of a transaction of pg-promise that txbox uses; `pg-promise` itself is not imported. */
interface PgPromiseTransaction {
  readonly ctx: PgPromiseContext
  multiResult(query: object): Promise<readonly PgPromiseResult[]>
}
interface PgPromiseContext {
  readonly parent?: PgPromiseContext | null
}
interface PgPromiseResult {
  readonly rows: readonly (readonly unknown[])[]
  readonly rowCount: number | null
  readonly fields: readonly { readonly name: string }[]
}

/** A transaction of pg-promise 12, or a task in a transaction. After its end, it refuses statements by itself. */
export const pgPromiseHandle: DriverAdapter<PgPromiseTransaction> = {
  name: 'pg-promise',
  recognises: (handle): handle is PgPromiseTransaction => isPgPromise(handle) && isInTransaction(handle),
  state: () => 'open',
  identityOf(tx) {
    // The outermost task has the connection in its context.
    let { ctx } = tx
    while (ctx.parent !== undefined && ctx.parent !== null) ctx = ctx.parent
    return ctx
  },
  monitor: () => undefined,
  limitIdleTime: (tx, milliseconds) =>
    pgPromiseHandle.query(tx, pgStatements.limitIdleTime(milliseconds), []),
  async query(tx, text, values) {
    try {
      // Rows are read as lists, because an option of pg-promise ("receive") may rename the properties of objects.
      const results = await tx.multiResult({
        text: hiddenStatements.onlyInTransaction(withLiterals(text, values)),
        rowMode: 'array',
      })
      const { rows, rowCount, fields } = results.at(-1)!
      return {
        rows: rows.map((row) => Object.fromEntries(fields.map(({ name }, n) => [name, row[n]]))),
        affected: rowCount ?? Number.NaN,
      }
    } catch (error) {
      throw outsideTransaction(error, 'pg-promise')
    }
  },
}

/** A database, a task or a transaction of pg-promise. */
export function isPgPromise(value: unknown): boolean {
  return hasFunction(value, 'oneOrNone') && hasFunction(value, 'txIf') && hasFunction(value, 'multiResult')
}

/** A task outside a transaction has a context, and a database has none. */
export function isInTransaction(value: unknown): boolean {
  return propertyOf(propertyOf(value, 'ctx'), 'inTransaction') === true
}
