/* MySQL and MariaDB park with two statements, an INSERT and a DELETE; PostgreSQL with one. */
import { TransactionConflictError } from '@txbox/core'
import type { LocalRow, LocalShard } from '@txbox/core/ports'
import { waiting } from '@txbox/sql/stores'
import type { Run } from '../connection/short-transaction.ts'
import type { RelaySettling } from '../relay/relay-settling.ts'
import { rowOf, type Verdict } from '../relay/relay-verdicts.ts'
import type { localStatements } from './local-statements.ts'
import { placeValues } from './locked-rows.ts'

export interface LocalVerdict extends Verdict {
  readonly row: LocalRow
}

export function waitingVerdict(row: LocalRow, suspect = false): LocalVerdict {
  return { ...waiting({ row, suspect }), row, unhandled: false }
}

/**
 * Moves rows that the transaction has locked to the parked messages.
 *
 * @param moved the rows with their verdicts as JSON, in the order of their numbers.
 */
export async function parkRows(
  run: Run,
  at: LocalShard,
  moved: readonly { readonly row: LocalRow; readonly text: string }[],
  { settling, sql }: { readonly settling: RelaySettling; readonly sql: ReturnType<typeof localStatements> },
): Promise<void> {
  const texts = moved.map(({ text }) => text)
  const parked = await settling.inPieces(run, sql.park, texts, placeValues(at))
  const rows = moved.map(({ row }) => rowOf(row))
  const removed = await settling.inPieces(run, sql.remove, rows, placeValues(at))
  if (parked === removed) return
  throw new TransactionConflictError(
    `${parked} messages were parked, but ${removed} were deleted from the waiting messages: a trigger or a missing privilege keeps ` +
      'rows there. Nothing was changed; the settlement is tried again.',
  )
}
