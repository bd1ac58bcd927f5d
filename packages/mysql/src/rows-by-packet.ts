/* Only MySQL and MariaDB limit the size of a statement. */
/**
 * Divides rows, in their order, among statements of at most `maxBytes`. A single longer row gets its own statement.
 * Rows are ASCII, so characters are bytes.
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
