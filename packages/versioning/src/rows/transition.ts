import { OptionChecker } from '@txbox/core/internal'
import { sql } from 'kysely'
import { KeyedRow } from './keyed-row.ts'
import { onKeyedRow } from './on-keyed-row.ts'
import { assertPast, assertState } from '../rules/moves.ts'
import { statesBefore, type StateMachine } from '../rules/state-machine.ts'
import type { AnyKysely, ColumnOf, Row, RowKey, SetOf, TableOf } from './table-options.ts'
import { checkedSet } from './version-option.ts'

/**
 * Moves one row to another state, if the state machine allows the move. Sends one statement, and a second one only if
 * nothing was updated.
 *
 * @returns `'applied'` if one move led from the row's state to `to`; `'already'` if the row is at `to`, or has passed
 *   `to` and cannot return to it. Both are successful outcomes.
 * @throws {TransitionTooEarlyError} when the row can still reach `to` after other moves. Retryable.
 * @throws {TransitionRefusedError} when the row can never reach `to`.
 * @throws {RowNotFoundError} when there is no such row.
 * @throws {TransactionConflictError} when the database asks for the transaction to be run again.
 * @throws {InvalidOptionError} when `to` is not a state of the machine; when `where` is empty or matches several rows;
 *   when `set` names the column of the state. After any error except TransactionConflictError, the transaction is still
 *   usable.
 */
export async function transition<DB, TB extends TableOf<DB>, C extends ColumnOf<DB, TB>>(
  tx: AnyKysely<DB>,
  table: TB,
  options: {
    /** Columns of a unique key, with their values. */
    where: RowKey<DB, TB>
    /** The column of the state. */
    column: C
    to: NoInfer<Row<DB, TB>[C] & string>
    machine: StateMachine<Row<DB, TB>[C] & string>
    /** Further values or Kysely expressions to write. */
    set?: SetOf<DB, TB, NoInfer<C>> | undefined
  },
): Promise<{ status: 'applied' | 'already' }> {
  const where = 'transition'
  const check = new OptionChecker(where, options).known('where', 'column', 'to', 'machine', 'set')
  const column = check.text('column', { max: 255 })
  const { to } = options
  const machine: StateMachine<string> = options.machine
  assertState(machine, to)
  const set = checkedSet(where, options.set ?? {}, column)
  const before = statesBefore(machine, to)
  return onKeyedRow(new KeyedRow(where, tx, table, options.where), (row) =>
    row.settle<{ status: 'applied' | 'already' }>({
      write: async () => before.length > 0 && row.update({ ...set, [column]: to }, [column, 'in', before]),
      written: { status: 'applied' },
      look: () => row.dialect.textOf(sql.ref(column)),
      explain(state, round) {
        if (state !== null && before.includes(state)) {
          // A MySQL driver that counts changed rows reports 0 rows for a move to the same state that changes nothing
          // else.
          return state === to && round > 1 ? { status: 'applied' } : undefined
        }
        if (state === to) return { status: 'already' }
        return assertPast(row, machine, state, to)
      },
    }),
  )
}
