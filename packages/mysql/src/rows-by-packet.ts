/* Only MySQL and MariaDB limit the size of a statement. */
/**
 * Distributes rows, in their order, over statements of at most `maxBytes`. A row that is longer gets a statement of its
 * own. Rows are ASCII, so characters are bytes.
 *
 * @param headBytes the size of each statement without its rows.
 */
export function rowsByPacket<T extends { readonly row: string }>(
  rows: readonly T[],
  headBytes: number,
  maxBytes: number,
): readonly (readonly T[])[] {
  const packets: T[][] = []
  let bytes = 0
  for (const row of rows) {
    const more = row.row.length + 1
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
