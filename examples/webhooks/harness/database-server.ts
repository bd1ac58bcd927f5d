/** What the demo can run on. */
export const DATABASE_KINDS = ['postgres', 'mysql', 'mariadb'] as const
export type DatabaseKind = (typeof DATABASE_KINDS)[number]

/** As people write them. */
export const DATABASE_TITLES: Readonly<Record<DatabaseKind, string>> = {
  postgres: 'PostgreSQL',
  mysql: 'MySQL',
  mariadb: 'MariaDB',
}

/** A server that the demo makes its databases on. */
export interface DatabaseServer {
  /** What it is, and where, for people. No password. */
  readonly description: string
  /** @returns the database's address. */
  createDatabase(name: string): Promise<string>
  /** Whatever is connected to it; none by that name is fine. */
  dropDatabase(name: string): Promise<void>
  /** Stops it, when it was started for the demo. */
  stop(): Promise<void>
}

/** The address of a database on the server of this one. */
export function urlOfDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}
