import type { KeptProcess } from '../../test/support/engines/servers/kept-process.ts'

export type EngineName = 'postgres' | 'mysql' | 'mariadb'

/** The database that every server of a chaos run has. */
export const DATABASE = 'chaos'
/** The user of the clients: no administrator, so that a full connection limit is full for them. */
export const CLIENT = 'txbox'

/** Where a server lives. */
export interface ServerPlace {
  /** The data folder of the server; the log and the socket lie beside the folder. */
  readonly data: string
  readonly port: number
  /** The port for administrators, which has connections when `port` has none left. PostgreSQL: `port` itself. */
  readonly adminPort: number
  /** Different for each server of a run. */
  readonly number: number
}

/**
 * - `primary` takes writes;
 * - `standby` follows the server behind `linkPort` and takes no writes until it is promoted;
 * - `former` follows nobody and takes no writes: it only shows what it had.
 */
export type ServerRole =
  | { readonly name: 'primary' | 'former' }
  | { readonly name: 'standby'; readonly linkPort: number }

/** The differences between the databases in running a primary and a standby. Every method acts on one server. */
export interface DatabaseEngine {
  readonly name: EngineName
  /** Lets the servers' user own a folder. */
  own(folder: string): void
  /** Makes the data folder of a server that has never run. */
  initialise(data: string): Promise<void>
  /** Copies the data folder of a server that does not run. The copy is another server. */
  copy(from: string, to: string): Promise<void>
  /** Resolves when the server answers. A crash before, by SIGKILL of its process, has lost nothing that was committed. */
  start(place: ServerPlace, role: ServerRole): Promise<KeptProcess>
  /** Makes the clients' user and database. */
  prepare(primary: ServerPlace): Promise<void>
  /** A standby that has started begins, or begins again, to follow. */
  follow(standby: ServerPlace, linkPort: number): Promise<void>
  /** How far a primary has come. */
  position(primary: ServerPlace): Promise<string>
  hasReached(standby: ServerPlace, position: string): Promise<boolean>
  /** The replication status of a standby, for an error message. */
  replication(standby: ServerPlace): Promise<string>
  /** A standby throws away the log that only a standby of its own would have needed. */
  prune(standby: ServerPlace): Promise<void>
  /** Resolves when the standby follows nobody and takes writes. */
  promote(standby: ServerPlace): Promise<void>
  clientUrl(port: number): string
  adminUrl(place: ServerPlace): string
}
