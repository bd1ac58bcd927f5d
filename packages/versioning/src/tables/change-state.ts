import { OptionChecker } from '@txbox/core/internal'
import type { RowStore } from '@txbox/core/ports'
import { assertPast, assertState } from '../rules/moves.ts'
import { statesBefore, type StateMachine } from '../rules/state-machine.ts'
import { TableRow } from './table-row.ts'

type Outcome = { status: 'applied' | 'already' }

/** See `Versioning.transition`. */
export async function transition(
  rows: RowStore,
  tx: unknown,
  table: string,
  options: {
    readonly where: unknown
    readonly column: string
    readonly to: string
    readonly machine: StateMachine<string>
    readonly set?: unknown
  },
): Promise<Outcome> {
  const where = 'transition'
  const check = new OptionChecker(where, options).known('where', 'column', 'to', 'machine', 'set')
  const column = check.text('column', { max: 255 })
  const { to, machine } = options
  assertState(machine, to)
  const given = new TableRow(where, rows, table, options.where)
  const set = given.checkedSet(options.set ?? {}, column)
  const before = statesBefore(machine, to)
  const row = given.in(await rows.bind(tx))
  const condition = { is: 'one of', column, states: before } as const
  return row.settle<Outcome>({
    write: async () => before.length > 0 && (await row.update({ set, to, condition })).written,
    written: { status: 'applied' },
    look: () => condition,
    explain(state, round) {
      if (state !== null && before.includes(state)) {
        // A MySQL driver that counts changed rows reports 0 rows for a move to the same state that changes nothing else.
        return state === to && round > 1 ? { status: 'applied' } : undefined
      }
      if (state === to) return { status: 'already' }
      return assertPast(row, machine, state, to)
    },
  })
}
