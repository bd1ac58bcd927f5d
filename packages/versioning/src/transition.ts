import { InvalidOptionError, OptionChecker, nameOf, oneLine } from '@txbox/core'
import { sql } from 'kysely'
import { TransitionRefusedError, TransitionTooEarlyError } from './errors.ts'
import { KeyedRow } from './keyed-row.ts'
import { onKeyedRow } from './on-keyed-row.ts'
import { leadsTo, statesBefore, type StateMachine } from './state-machine.ts'
import type { AnyKysely, ColumnOf, Row, RowKey, SetOf, TableOf } from './table-options.ts'
import { checkedSet } from './version-option.ts'

/**
 * Moves one row to another state, if its machine allows it. One statement; a second one only when nothing was updated.
 *
 * @returns `'applied'` when the row was in a state from which one move leads to `to`; `'already'` when it is at `to`,
 *   or past it with no way back. Both are a success.
 * @throws {TransitionTooEarlyError} when the row can still come to `to`, by other moves first. Retryable.
 * @throws {TransitionRefusedError} when it never can.
 * @throws {RowNotFoundError} when there is no such row.
 * @throws {TransactionConflictError} when the database asks for the transaction to be run again.
 * @throws {InvalidOptionError} when `to` is no state of the machine, for an empty `where` or one that matches several
 *   rows, or a `set` with the column of the state. After any error but TransactionConflictError the transaction goes
 *   on.
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
    /** What else to write. */
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
          // A driver of MySQL that counts changed rows counts a move to the same state without changes as no row.
          return state === to && round > 1 ? { status: 'applied' } : undefined
        }
        if (state === to) return { status: 'already' }
        return assertPast(row, machine, state, to)
      },
    }),
  )
}

function assertState(machine: unknown, to: unknown): void {
  const { states, moves } = Object(machine) as { states?: unknown; moves?: unknown }
  const isMachine =
    Array.isArray(states) &&
    typeof moves === 'object' &&
    moves !== null &&
    states.every(
      (state) =>
        typeof state === 'string' && Object.hasOwn(moves, state) && Array.isArray(Reflect.get(moves, state)),
    )
  if (!isMachine) {
    throw new InvalidOptionError(
      `transition: the option 'machine' must be what stateMachine() returns, not ${nameOf(machine)}.`,
    )
  }
  if (states.includes(to)) return
  throw new InvalidOptionError(
    `transition: the option 'to' must be a state of the machine (${oneLine(states.join(', '), 500)}), not ${nameOf(to)}.`,
  )
}

/** No direct move leads from `state` to `to`, and they differ. */
function assertPast(
  row: KeyedRow,
  machine: StateMachine<string>,
  state: string | null,
  to: string,
): { status: 'already' } {
  if (state !== null && leadsTo(machine, state, to)) {
    throw new TransitionTooEarlyError(
      `${row.doing} is '${oneLine(state)}', from which other moves come before '${oneLine(to)}'. Nothing was written. Try again when they have ` +
        'been made.',
      { from: state, to },
    )
  }
  if (state !== null && leadsTo(machine, to, state)) return { status: 'already' }
  throw new TransitionRefusedError(
    `${row.doing} is ${state === null ? 'in no state' : `'${oneLine(state)}'`}, from which no way leads to '${oneLine(to)}'. Nothing was ` +
      'written, and trying again is of no use.',
    { from: state, to },
  )
}
