import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { LeaveOutSequencer } from './test/support/servers/leave-out-sequencer.ts'
import { RunSummary, isCi } from './test/support/run-summary.ts'

/** The contract suite on one database: another database is one more line below. */
function contractOn(
  name: string,
  server: string,
  engine: 'postgres' | 'mysql' | 'mariadb',
  exclude: string[] = [],
): TestProjectInlineConfiguration {
  return onServers(name, [server], { include: ['test/contract/**/*.test.ts'], exclude, provide: { engine } })
}

/** What takes its time, by the statements that the other tests run too: minutes that say nothing of a version. */
const SLOW_TESTS = [
  'test/contract/relay-{cut-off,database-failure,dead-letter-selections,drain,history-property,leases,order}.test.ts',
  'test/contract/relay-{order-concurrency,order-property,outage,payloads,rejections,resend,stop}.test.ts',
  'test/contract/relay-{suspects,unanswered,refused-settlement,slow-messages,kept-errors,store-locked}.test.ts',
  'test/contract/versioning-buffer-{stress,turns}.test.ts',
  'test/contract/gc-{batches,concurrency}.test.ts',
]

/** What one connection can run, without anybody who looks at the database from outside: on PGlite, which has no more. */
const ONE_CONNECTION = [
  'test/contract/keys.test.ts',
  'test/contract/outbox-refusals.test.ts',
  'test/contract/gc-collect.test.ts',
  'test/contract/relay-dead-letters.test.ts',
  'test/contract/versioning-{buffer,inbox}.test.ts',
]

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
      globalSetup: ['test/support/servers/global-setup.ts'],
      provide: { engine: 'postgres', optional: false, ...test.provide, needs },
    },
  }
}

export default defineConfig({
  test: {
    // Two workers: each opens tens of connections, and a server takes a hundred.
    maxWorkers: 2,
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 30_000,
    // A machine that is busy with something else must not stop a change; the run's last lines name what needed it.
    retry: isCi() ? 2 : 0,
    // The packages as a user gets them: built, and loaded by Node itself.
    server: { deps: { external: [/\/packages\/[^/]+\/dist\//] } },
    sequence: { sequencer: LeaveOutSequencer },
    reporters: ['default', new RunSummary()],
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      contractOn('postgres', 'postgres', 'postgres'),
      // The newest version, beside the one that is found first.
      contractOn('postgres-embedded', 'postgres-embedded', 'postgres', SLOW_TESTS),
      onServers('pglite', ['pglite'], { include: ['test/pglite/**/*.test.ts', ...ONE_CONNECTION] }),
      contractOn('mysql', 'mysql', 'mysql'),
      contractOn('mariadb', 'mariadb', 'mariadb'),
      ...(['mysql', 'mariadb'] as const).map((engine) =>
        onServers(`${engine}-only`, [engine], {
          include: ['test/contract-mysql/**/*.test.ts'],
          provide: { engine },
        }),
      ),
      ...(['mysql', 'mariadb'] as const).map((engine) =>
        onServers(`cli-${engine}`, [engine], {
          include: ['test/cli-mysql/**/*.test.ts'],
          provide: { engine },
        }),
      ),
      onServers('rabbitmq', ['postgres', 'rabbitmq'], { include: ['test/rabbitmq/**/*.test.ts'] }),
      onServers('galera', ['galera'], {
        include: ['test/galera/**/*.test.ts'],
        provide: { engine: 'mariadb', optional: true },
      }),
      { extends: true, test: { name: 'chaos', include: ['test/chaos/faulty-*.test.ts'] } },
      onServers('chaos-broker', ['rabbitmq-program'], {
        include: ['test/chaos/broker.test.ts'],
        provide: { optional: true },
      }),
      ...(['postgres', 'mysql', 'mariadb'] as const).map((engine) =>
        onServers(`chaos-${engine}`, [`${engine}-program`], {
          include: ['test/chaos/database*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 120_000,
          provide: { engine, optional: true },
        }),
      ),
      onServers('postgres-only', ['postgres'], { include: ['test/contract-postgres/**/*.test.ts'] }),
      onServers('cli', ['postgres'], { include: ['test/cli/**/*.test.ts'] }),
      onServers('crash', ['postgres'], { include: ['test/crash/**/*.test.ts'], testTimeout: 120_000 }),
      ...(['mysql', 'mariadb'] as const).map((engine) =>
        onServers(`${engine}-crash`, [engine], {
          include: ['test/crash/**/*.test.ts'],
          testTimeout: 120_000,
          provide: { engine },
        }),
      ),
    ],
  },
})
