/** The databases on which the demo can run. */
export const DATABASE_KINDS = ['postgres', 'mysql', 'mariadb'] as const
export type DatabaseKind = (typeof DATABASE_KINDS)[number]

/** Their usual spelling. */
export const DATABASE_TITLES: Readonly<Record<DatabaseKind, string>> = {
  postgres: 'PostgreSQL',
  mysql: 'MySQL',
  mariadb: 'MariaDB',
}

/** A server on which the demo creates its databases. */
export interface DatabaseServer {
  /** A description of the server with its address, for people, without a password. */
  readonly description: string
  /** @returns the database's address. */
  createDatabase(name: string): Promise<string>
  /** Drops the database even if clients are connected. A missing database is not an error. */
  dropDatabase(name: string): Promise<void>
  /** Stops the server if it was started for the demo. */
  stop(): Promise<void>
}

/** The address of another database on the same server. */
export function urlOfDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}
