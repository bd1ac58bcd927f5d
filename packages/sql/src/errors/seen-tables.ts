/** The beginnings of the names of tables that this process has found complete, as the server writes them in its errors. */
const seen = new Set<string>()

/** @param start such as `txbox.` or `txbox_`. */
export function tablesSeen(start: string): void {
  seen.add(start)
}

/** Returns whether an error of the server names a table that existed when this process checked the tables. */
export function namesSeenTable(message: string): boolean {
  return [...seen].some((start) => message.includes(start))
}
