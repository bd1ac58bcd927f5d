import path from 'node:path'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { EXCLUDED, LIBRARIES, ON_TOP } from './test/support/tiers/libraries.ts'
import { LeaveOutSequencer } from './test/support/engines/servers/leave-out-sequencer.ts'
import { RunSummary, isCi } from './test/support/tiers/run-summary.ts'
import { isLeftOut, isShort, tierOfRun } from './test/support/tiers/tier.ts'

/**
 * The databases, with what the quick tier runs every rule on: the library differs from one to the next, and the isolation
 * level is the server's usual one.
 */
const DATABASES = {
  postgres: { engine: 'postgres', library: 'pg', isolation: 'read committed' },
  // The newest version, beside the one that is found first.
  'postgres-embedded': { engine: 'postgres', library: 'kysely', isolation: 'repeatable read' },
  pglite: { engine: 'postgres', library: 'kysely', isolation: 'read committed' },
  mysql: { engine: 'mysql', library: 'mysql2', isolation: 'server default' },
  mariadb: { engine: 'mariadb', library: 'kysely', isolation: 'server default' },
} as const

/**
 * The databases, libraries and versions that differ from another project in one respect run, also in the tier `all`, what
 * the quick tier runs: one kind of handle, and one isolation level where the level must not matter.
 */
const ONE_DIFFERENCE = { tier: 'quick' } as const

/** The contract suite on one database: another database is one more line above, and one below. */
function contractOn(
  database: keyof typeof DATABASES,
  {
    include = ['test/contract/**/*.test.ts'],
    exclude = [],
    ...provide
  }: { include?: string[]; exclude?: string[]; tier?: 'quick' } = {},
): TestProjectInlineConfiguration {
  return onServers(database, [database], {
    include,
    exclude,
    provide: { ...DATABASES[database], ...provide },
  })
}

/** What takes its time, by the statements that the other tests run too: minutes that say nothing of a version. */
const SLOW_TESTS = [
  'test/contract/*/relay-{cut-off,database-failure,dead-letter-selections,drain,history-property,inbox,leases,order}{,.rotated}.test.ts',
  'test/contract/*/relay-{order-concurrency,order-property,outage,payloads,rejections,resend,stop}{,.rotated}.test.ts',
  'test/contract/outbox/outbox-lock-keys-order.rotated.test.ts',
  'test/contract/*/relay-{suspects,unanswered,refused-settlement,slow-messages,kept-errors,store-locked}{,.rotated}.test.ts',
  'test/contract/*/versioning-buffer-{stress,turns}{,.rotated}.test.ts',
  'test/contract/*/gc-{batches,concurrency}{,.rotated}.test.ts',
  'test/contract/outbox/outbox-deduplication-property.rotated.test.ts',
  'test/contract/*/queue-{killed,source,stress}{,.rotated}.test.ts',
  'test/contract/consumer/*.test.ts',
  'test/contract/local/local-!(store|publishers)*.test.ts',
]

/** The rules in which another version of PostgreSQL could differ: all that the quick tier runs on the newest version. */
const VERSION_DIFFERENCES = [
  'test/contract/*/{migrate,inbox-aborted,inbox-commit,inbox-conflicts,outbox-publish,queue-send,transact}{,.rotated}.test.ts',
]

/** What one connection can run, without anybody who looks at the database from outside: on PGlite, which has no more. */
const ONE_CONNECTION = [
  'test/contract/inbox/keys.test.ts',
  'test/contract/outbox/outbox-refusals.test.ts',
  'test/contract/gc/gc-collect.test.ts',
  'test/contract/relay/relay-dead-letters.rotated.test.ts',
  'test/contract/*/versioning-{buffer,inbox}{,.rotated}.test.ts',
]

/** The rules that depend on the library whose transactions a caller passes. */
const LIBRARY_RULES = [
  'test/contract/*/inbox-{aborted,batch,commit,concurrency,conflicts,duplicates,outcome}{,.rotated}.test.ts',
  'test/contract/*/{late-calls,outbox-deduplication,outbox-lock-keys,outbox-publish,transact,transaction-proxy}{,.rotated}.test.ts',
  'test/contract/*/queue-{delete,send}{,.rotated}.test.ts',
  // Only the half of every library: these projects have no Kysely.
  'test/contract/*/versioning-{guard,inbox,merge,newer,transition,update,values}{,.rotated}.test.ts',
  'test/libraries/*.test.ts',
]

/**
 * Those of them in which a library differs by its version, or by the driver underneath, which has all rules itself. The
 * quick tier runs no other rules of its libraries.
 */
const LIBRARY_DIFFERENCES = ['test/libraries/differences.ts']

function libraryProjects(): TestProjectInlineConfiguration[] {
  return Object.entries(LIBRARIES).flatMap(([library, engines]) =>
    engines.map((engine, n) =>
      onServers(`library-${library}-${engine}`, [engine], {
        include: [
          ...(n > 0 || library.endsWith('@oldest') || isShort(`library-${library}-${engine}`)
            ? LIBRARY_DIFFERENCES
            : LIBRARY_RULES),
          ...(ON_TOP[library] ?? []),
        ],
        exclude: EXCLUDED[library] ?? [],
        provide: { ...DATABASES[engine], ...ONE_DIFFERENCE, library },
      }),
    ),
  )
}

/** Tests that need real servers. A project whose server is nowhere is left out, and the run says so. */
function onServers(
  name: string,
  needs: string[],
  test: NonNullable<TestProjectInlineConfiguration['test']>,
): TestProjectInlineConfiguration {
  return {
    extends: true,
    test: {
      ...test,
      name,
      globalSetup: ['test/support/engines/servers/global-setup.ts'],
      provide: { tier: tierOfRun(), optional: false, ...DATABASES.postgres, ...test.provide, needs },
    },
  }
}

/** In CI the seed of the fuzz tests is the day, such as 20260131: a change that was green stays green on that day. */
const SEED_OF_CI = new Date().toISOString().slice(0, 10).replaceAll('-', '')

/**
 * One seed for a run of the fuzz tests, and how many times the cases of a short run. `npm run fuzz` sets both. The quick
 * tier runs a twentieth of the cases: its seed differs each time.
 */
const FUZZ = {
  seed: Number(process.env['TXBOX_FUZZ_SEED'] ?? (isCi() ? SEED_OF_CI : Math.trunc(Math.random() * 2 ** 31))),
  factor: Number(process.env['TXBOX_FUZZ_FACTOR'] ?? (tierOfRun() === 'all' ? 1 : 0.05)),
}

// A run starts about a thousand processes: workers, and the programs that tests start and kill. Each takes the compiled
// code of its modules from this folder, which halves the CPU time of its start.
process.env['NODE_COMPILE_CACHE'] ??= path.join(
  import.meta.dirname,
  'node_modules',
  '.cache',
  'compiled-code',
)

const projects: TestProjectInlineConfiguration[] = [
  { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
  {
    extends: true,
    test: { name: 'fuzz', include: ['test/fuzz/pure/**/*.test.ts'], provide: { fuzz: FUZZ } },
  },
  ...(['postgres', 'mysql', 'mariadb'] as const).map((engine) =>
    onServers(`fuzz-${engine}`, [engine], {
      include: ['test/fuzz/database/**/*.test.ts'],
      provide: { ...DATABASES[engine], fuzz: FUZZ },
    }),
  ),
  contractOn('postgres'),
  contractOn('postgres-embedded', {
    ...(tierOfRun() === 'quick' && { include: VERSION_DIFFERENCES }),
    exclude: SLOW_TESTS,
    ...ONE_DIFFERENCE,
  }),
  onServers('pglite', ['pglite'], {
    include: [
      'test/pglite/**/*.test.ts',
      ...(tierOfRun() === 'quick' ? ['test/contract/inbox/keys.test.ts'] : ONE_CONNECTION),
    ],
    provide: { ...DATABASES.pglite, ...ONE_DIFFERENCE },
  }),
  // The helpers of versioned tables take transactions of pg and of Kysely. Refused messages never reach the library.
  ...['pglite', 'drizzle-pglite'].map((library) =>
    onServers(`library-${library}`, ['pglite'], {
      include: [
        'test/libraries/*.test.ts',
        ...(isShort(`library-${library}`)
          ? []
          : ONE_CONNECTION.filter((file) => !/versioning|refusals/.test(file))),
      ],
      provide: { ...DATABASES.pglite, ...ONE_DIFFERENCE, library },
    }),
  ),
  contractOn('mysql'),
  contractOn('mariadb'),
  ...(['mysql', 'mariadb'] as const).flatMap((engine) => [
    onServers(`${engine}-only`, [engine], {
      include: ['test/contract-mysql/**/*.test.ts'],
      provide: DATABASES[engine],
    }),
    onServers(`cli-${engine}`, [engine], {
      include: ['test/cli-mysql/**/*.test.ts'],
      provide: DATABASES[engine],
    }),
    onServers(`${engine}-crash`, [engine], {
      include: ['test/crash/**/*.test.ts'],
      testTimeout: 120_000,
      provide: DATABASES[engine],
    }),
  ]),
  ...libraryProjects(),
  ...(['postgres', 'mysql', 'mariadb'] as const).map((engine) =>
    onServers(`schema-tools-${engine}`, [engine], {
      include: ['test/libraries/schema-tools/*.test.ts'],
      testTimeout: 120_000,
      provide: DATABASES[engine],
    }),
  ),
  onServers('library-nestjs-postgres', ['postgres'], { include: ['test/libraries/nestjs/*.test.ts'] }),
  onServers('library-nestjs-11-postgres', ['postgres'], { include: ['test/libraries/nestjs-11/*.test.ts'] }),
  onServers('http', ['postgres'], { include: ['test/http/**/*.test.ts'] }),
  onServers('rabbitmq', ['postgres', 'rabbitmq'], { include: ['test/rabbitmq/**/*.test.ts'] }),
  onServers('opentelemetry', ['postgres', 'rabbitmq'], { include: ['test/opentelemetry/**/*.test.ts'] }),
  onServers('kafka', ['postgres', 'kafka'], {
    include: ['test/kafka/*.test.ts'],
    provide: { optional: true },
  }),
  onServers('kafka-broker', ['postgres', 'kafka-program'], {
    include: ['test/kafka/broker/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    provide: { optional: true },
  }),
  onServers('pgbouncer', ['postgres', 'pgbouncer-program'], { include: ['test/pgbouncer/**/*.test.ts'] }),
  { extends: true, test: { name: 'webhook', include: ['test/webhook/**/*.test.ts'] } },
  onServers('library-webhooks-postgres', ['postgres'], { include: ['test/libraries/webhooks/*.test.ts'] }),
  onServers('redis', ['redis-program'], { include: ['test/redis/**/*.test.ts'] }),
  onServers('galera', ['galera'], {
    include: ['test/galera/**/*.test.ts'],
    provide: { ...DATABASES.mariadb, optional: true },
  }),
  { extends: true, test: { name: 'chaos', include: ['test/chaos/faulty-*.test.ts'] } },
  onServers('chaos-broker', ['rabbitmq-program'], {
    include: ['test/chaos/broker*.test.ts'],
    provide: { optional: true },
  }),
  ...(['postgres', 'mysql', 'mariadb'] as const).map((engine) =>
    onServers(`chaos-${engine}`, [`${engine}-program`], {
      include: ['test/chaos/database*.test.ts'],
      testTimeout: 180_000,
      hookTimeout: 120_000,
      provide: { ...DATABASES[engine], optional: true },
    }),
  ),
  ...(['postgres', 'mysql', 'mariadb'] as const).map((engine) =>
    onServers(`debezium-${engine}`, [`${engine}-program`, 'kafka', 'debezium-program'], {
      include: ['test/debezium/*.test.ts'],
      testTimeout: 240_000,
      hookTimeout: 180_000,
      provide: { ...DATABASES[engine], optional: true },
    }),
  ),
  ...(['postgres', 'mysql', 'mariadb'] as const).map((engine) =>
    onServers(`upgrade-${engine}`, [engine], {
      include: ['test/upgrade/*.test.ts'],
      hookTimeout: 300_000,
      provide: DATABASES[engine],
    }),
  ),
  onServers('postgres-only', ['postgres'], { include: ['test/contract-postgres/**/*.test.ts'] }),
  onServers('cli', ['postgres'], { include: ['test/cli/**/*.test.ts'] }),
  onServers('crash', ['postgres'], { include: ['test/crash/**/*.test.ts'], testTimeout: 120_000 }),
]

export default defineConfig({
  test: {
    // Tests wait more than they work, so that four to six workers keep two cores busy. Each opens some thirty connections at
    // the most, and a server takes a hundred; the quick tier has fewer of the files that open many.
    maxWorkers: tierOfRun() === 'all' ? 4 : 6,
    pool: 'forks',
    // A process for each file would spend as long on loading as on testing. The files share loaded code, and databases that
    // are as a migration makes them: no file sees the rows of another one.
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The connector `mariadb` before 3.5, which Prisma's adapter brings, reports a connection that breaks during `initSql`
    // to the pool, and leaves a second promise rejected. Tests that cut connections reach this moment now and then.
    onUnhandledError: (error) =>
      'code' in error && error['code'] === 'ER_INITIAL_SQL_ERROR' ? false : undefined,
    teardownTimeout: 30_000,
    // A machine that is busy with something else must not stop a change; the run's last lines name what needed it.
    retry: isCi() ? 2 : 0,
    // The packages as a user gets them: built, and loaded by Node itself.
    server: { deps: { external: [/\/packages\/[^/]+\/dist\//] } },
    sequence: { sequencer: LeaveOutSequencer },
    reporters: ['default', new RunSummary()],
    projects: projects.filter((project) => !isLeftOut(project.test?.name)),
  },
})
