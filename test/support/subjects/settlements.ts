import type { BacklogMessage, BacklogRow, Refusal, OutboxSettlement } from '@txbox/core/ports'

/** A relay's settlement of a message that was refused again; without `retryInMs` the message is dead. */
export function refusalOf(
  message: BacklogRow & Partial<Pick<BacklogMessage, 'attempts'>>,
  retryInMs: number | undefined,
  changes: Partial<Refusal> = {},
): Refusal {
  const attempts = (message.attempts ?? 0) + 1
  return { row: message, attempts, error: 'no', errors: undefined, retryInMs, suspect: false, ...changes }
}

/** Messages that wait behind a parked message of their key. */
export function behind(rows: readonly BacklogRow[]): OutboxSettlement['behind'] {
  return rows.map((row) => ({ row, suspect: false }))
}
