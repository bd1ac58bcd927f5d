/**
 * Two tiers of the same tests. `quick` (`npm test`) runs every rule once per database: on one kind of handle, which
 * differs from database to database, and at one isolation level unless the level matters; slow files take turns on the
 * databases. `all` (`npm run test:all`) runs every kind of handle, every level, crash tests, schema tools and Galera.
 */
export type Tier = 'quick' | 'all'

/** The projects that only the tier `all` runs. A project that the command line names runs in both tiers. */
const ONLY_IN_ALL: readonly string[] = [
  'galera',
  'pgbouncer',
  'crash',
  'mysql-crash',
  'mariadb-crash',
  'chaos-broker',
  'chaos-postgres',
  'chaos-mysql',
  'chaos-mariadb',
  'schema-tools-postgres',
  'schema-tools-mysql',
  'schema-tools-mariadb',
  'debezium-postgres',
  'debezium-mysql',
  'debezium-mariadb',
  'kafka-broker',
  'sqs-standard',
  'sqs-server-fifo',
  'sqs-server-standard',
  'upgrade-postgres',
  'upgrade-mysql',
  'upgrade-mariadb',
]

/**
 * Projects that take turns by commit where `TXBOX_TEST_TURN` is a number, such as the number of commits: of each group one
 * runs, and the run's last lines name the others. They kill and start servers and processes, which takes minutes, by code that
 * hardly differs from one database, or kind of queue, to the next. `npm run test:all` runs all of them.
 */
const TAKING_TURNS: readonly (readonly string[])[] = [
  ['chaos-postgres', 'chaos-mysql', 'chaos-mariadb'],
  ['upgrade-postgres', 'upgrade-mysql', 'upgrade-mariadb'],
  ['debezium-postgres', 'debezium-mysql', 'debezium-mariadb'],
  ['sqs-fifo', 'sqs-standard'],
  ['sqs-server-fifo', 'sqs-server-standard'],
]

/** @returns the projects whose turn it is not. */
function waitingForTurn(): readonly string[] {
  const { TXBOX_TEST_TURN: turn = '' } = process.env
  if (turn === '') return []
  if (!/^\d+$/.test(turn)) throw new Error(`TXBOX_TEST_TURN is a whole number, not '${turn}'.`)
  // Each group begins with another database, so that a commit runs something on each.
  return TAKING_TURNS.flatMap((group, n) =>
    group.filter((_, place) => place !== (Number(turn) + n) % group.length),
  )
}

export function tierOfRun(): Tier {
  const { TXBOX_TEST_TIER: tier = 'quick' } = process.env
  if (tier !== 'quick' && tier !== 'all')
    throw new Error(`TXBOX_TEST_TIER is 'quick' or 'all', not '${tier}'.`)
  return tier
}

/** The quick tier runs each library in its newest version, on one driver. */
const LIBRARY_ONLY_IN_ALL =
  /^library-(?:.*@oldest.*|.*-is-open-.*|slonik-.*|nestjs-.*|drizzle-postgres-js-.*|drizzle-pglite|neon-.*|mariadb-mysql|(?!mariadb-).*-(?:mysql|mariadb))$/

/** Whether this run leaves out the project of this name: to `npm run test:all`, or to the turn of another commit. */
export function isLeftOut(project: unknown): boolean {
  const isNamed = typeof project === 'string' && process.argv.some((arg) => arg.includes(project))
  return isLeftToAll(project) || (!isNamed && waitingForTurn().some((each) => each === project))
}

function isLeftToAll(project: unknown): boolean {
  const isLibrary = typeof project === 'string' && LIBRARY_ONLY_IN_ALL.test(project)
  const name = isLibrary ? project : ONLY_IN_ALL.find((each) => each === project)
  return name !== undefined && tierOfRun() === 'quick' && !process.argv.some((arg) => arg.includes(name))
}

/** Whether this tier runs only some of the rules of this library's project. */
export function isShort(project: string): boolean {
  return tierOfRun() === 'quick' && !LIBRARY_ONLY_IN_ALL.test(project)
}

/** The list of what the run left out, for its last lines. */
export function leftOut(): readonly string[] {
  const waiting = waitingForTurn()
  const turns =
    waiting.length === 0 ? [] : [`LEFT OUT until their turn, at other commits: ${waiting.join(', ')}.`]
  if (tierOfRun() === 'all') return turns
  return [
    ...turns,
    "LEFT OUT by this tier: other kinds of handles than each database's main one; isolation levels where they make no difference;",
    '  slow files on all databases but one (test/support/tiers/rotated-files.ts); crash tests;',
    `  projects ${ONLY_IN_ALL.filter(isLeftToAll).join(', ')}; all drivers and the oldest version of each library;`,
    '  the rules that a library shares with the driver underneath (those that test/libraries/differences.ts does not name).',
    "  'npm run test:all' runs them.",
  ]
}
