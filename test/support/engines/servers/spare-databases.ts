/** A database that a test file has left as the migration had made it: the next file of this process takes it over. */
export interface SpareDatabase {
  readonly url: string
  readonly drop: () => Promise<void>
  /** The database's own description of its tables, functions and settings. */
  readonly state: string
}

/** Creating, migrating and dropping a database takes longer than most test files. By the address of the server. */
const spares = new Map<string, SpareDatabase[]>()

export function takeSpare(serverUrl: string): SpareDatabase | undefined {
  return spares.get(serverUrl)?.pop()
}

/** The database is dropped at the end of the run. */
export function keepSpare(serverUrl: string, spare: SpareDatabase): void {
  const others = spares.get(serverUrl) ?? []
  spares.set(serverUrl, [...others, spare])
}
