/** Which tables of txbox are there. */
export interface TableState {
  /** `'none'`: there are no tables. `'earlier'`: they lack migrations of this version. `'usable'`: this version works with them. */
  readonly revision: 'none' | 'earlier' | 'usable'
  /** Whether the server runs inside a process of Node.js, as PGlite does: it has one connection, and ends with the process. */
  readonly isEmbedded: boolean
}

/** Makes and inspects the tables of txbox. */
export interface TableStore {
  /**
   * With `waits`, and tables that lack migrations, waits until no other process migrates, and looks again: a server that commits each
   * statement shows half of the tables meanwhile. Aborting the signal ends the wait.
   *
   * @throws {SchemaError} when the tables have a later revision than this version can use.
   */
  state(options: { readonly waits: boolean; readonly signal: AbortSignal }): Promise<TableState>
  /**
   * Creates the tables, or updates them. Several processes may call this at the same time. Aborting the signal ends the wait for
   * another migration.
   *
   * @returns the names of the migrations that this call has applied.
   */
  migrate(options: { readonly signal: AbortSignal }): Promise<readonly string[]>
}
