type Engine = 'postgres' | 'mysql' | 'mariadb'

/**
 * The libraries on top of a driver, and the drivers beside pg and mysql2, by the databases on which each works. The first
 * database has all rules, unless this is the oldest version of the library.
 */
export const LIBRARIES: Readonly<Record<string, readonly [Engine, ...Engine[]]>> = {
  drizzle: ['postgres', 'mysql', 'mariadb'],
  'drizzle-postgres-js': ['postgres'],
  'drizzle@oldest': ['postgres', 'mysql', 'mariadb'],
  knex: ['postgres', 'mysql', 'mariadb'],
  mariadb: ['mariadb', 'mysql'],
  mikroorm: ['postgres', 'mysql', 'mariadb'],
  'mikroorm@oldest': ['postgres', 'mysql', 'mariadb'],
  neon: ['postgres'],
  'pg-promise': ['postgres'],
  'postgres-js': ['postgres'],
  prisma: ['postgres'],
  'prisma-mariadb': ['mysql', 'mariadb'],
  'sequelize-7': ['postgres', 'mysql', 'mariadb'],
  'sequelize@oldest': ['postgres', 'mysql', 'mariadb'],
  // By a recipe of sqlTransaction.
  slonik: ['postgres'],
  'sql-transaction': ['postgres', 'mysql', 'mariadb'],
  'sql-transaction-is-open': ['mysql', 'mariadb', 'postgres'],
  typeorm: ['postgres', 'mysql', 'mariadb'],
  'typeorm@oldest': ['postgres', 'mysql', 'mariadb'],
}

/** Rules that a library cannot keep, or cannot show. */
export const EXCLUDED: Readonly<Record<string, string[]>> = {
  // postgres.js ends the process when a connection breaks in a transaction that Drizzle has opened on it.
  'drizzle-postgres-js': ['test/contract/inbox/inbox-commit.test.ts'],
  // A root of Prisma lends no connection to receive with.
  prisma: ['test/contract/queue/queue-{delete,send}.test.ts'],
  'prisma-mariadb': ['test/contract/queue/queue-{delete,send}.test.ts'],
}

const HOOKS = 'test/libraries/hooks/commit-hooks.test.ts'
const DEAD_CONNECTIONS = 'test/contract/transactions/dead-idle-connections.rotated.test.ts'
const HIDDEN_DEAD_CONNECTIONS = 'test/contract/transactions/dead-idle-connections-hidden.rotated.test.ts'

/** Further tests of a library: of what is built on it, and of its pool. */
export const ON_TOP: Readonly<Record<string, string[]>> = {
  drizzle: [DEAD_CONNECTIONS],
  knex: ['test/libraries/objection/objection.test.ts', HIDDEN_DEAD_CONNECTIONS],
  mikroorm: [HOOKS, DEAD_CONNECTIONS],
  'pg-promise': [DEAD_CONNECTIONS],
  'postgres-js': ['test/libraries/postgres-js/lost-connection.test.ts'],
  'sequelize-7': ['test/libraries/sequelize/nest-mode.test.ts', HIDDEN_DEAD_CONNECTIONS],
  typeorm: [HOOKS, DEAD_CONNECTIONS],
}
