/* Only MySQL and MariaDB limit the size of a statement. */
/**
 * Distributes rows, in their order, over statements of at most `maxBytes`. A row that is longer gets a statement of its
 * own.
 *
 * @param headBytes the size of each statement without its rows.
 * @param bytesOf returns the size of a row without its comma.
 */
export function rowsByPacket<T>(
  rows: readonly T[],
  headBytes: number,
  maxBytes: number,
  bytesOf: (row: T) => number,
): readonly (readonly T[])[] {
  const packets: T[][] = []
  let bytes = 0
  for (const row of rows) {
    const more = bytesOf(row) + 1
    const last = packets.at(-1)
    if (last === undefined || bytes + more > maxBytes) {
      packets.push([row])
      bytes = headBytes + more
    } else {
      last.push(row)
      bytes += more
    }
  }
  return packets
}

/** The size of a row as SQL text, which is ASCII. */
export function rowBytes({ row }: { readonly row: string }): number {
  return row.length
}
