import type { Row, RowReader } from '../row-reader.ts'

/** Parked messages that are due and come first in their keys, as rows with their places. */
interface DueMessages {
  /** Messages that are tried alone: they have no place in the order of a key, or were tried before. */
  readonly alone: readonly Row[]
  /**
   * Messages that were never tried: each was released after its predecessor, so the messages behind it may be published
   * with it.
   */
  readonly onward: readonly Row[]
}

/** Finds the due messages that come first in their keys; `follow` puts the others back behind their predecessors. */
export async function dueMessages(
  columns: RowReader,
  readDue: () => Promise<readonly Row[]>,
  follow: (rows: readonly Row[]) => Promise<unknown>,
): Promise<DueMessages> {
  const isFirst = (row: Row): boolean =>
    !columns.has(row, 'first') || columns.text(row, 'first') === columns.text(row, 'place')
  const isOnward = (row: Row): boolean =>
    columns.has(row, 'order_key') && columns.number(row, 'attempts') === 0
  for (;;) {
    const due = await readDue()
    const heads = due.filter(isFirst)
    if (heads.length < due.length) await follow(due.filter((row) => !isFirst(row)))
    if (heads.length === 0 && due.length > 0) continue
    return { alone: heads.filter((row) => !isOnward(row)), onward: heads.filter(isOnward) }
  }
}
