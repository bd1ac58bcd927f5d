// Tests one package in seconds: `npm run test:package -- outbox`. These are the contract tests in the folder of the
// package's name, on PostgreSQL, and the unit tests that import it. A package of a database or a broker has a project of its own.
// Vitest gets the arguments after the name: `npm run test:package -- inbox -t 'I4 '`, or `-- inbox --project mysql`.
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

const root = path.dirname(import.meta.dirname)
const packages = globSync('packages/*/package.json', { cwd: root }).map((file) =>
  path.basename(path.dirname(file)),
)

/** The tests of packages whose contract tests are not in a folder of the package's name. */
const SUITES = {
  core: { projects: ['postgres'], files: ['test/contract/inbox/keys', 'test/contract/transactions/'] },
  consumer: { projects: [], files: [] },
  sql: { projects: ['postgres'], files: ['test/contract/transactions/'] },
  postgres: { projects: ['postgres-only'], files: ['test/contract-postgres/'] },
  mysql: { projects: ['mysql-only'], files: ['test/contract-mysql/'] },
  rabbitmq: { projects: ['rabbitmq'], files: ['test/rabbitmq/'] },
  kafka: { projects: ['kafka'], files: ['test/kafka/'] },
  'pg-boss': { projects: ['pg-boss'], files: ['test/pg-boss/'] },
  cloudevents: { projects: ['unit', 'webhook', 'rabbitmq', 'kafka', 'nats'], files: ['cloud-events'] },
  'idempotency-key': { projects: ['postgres', 'http'], files: ['test/contract/http/', 'test/http/'] },
  opentelemetry: { projects: ['opentelemetry'], files: ['test/opentelemetry/'] },
  redis: { projects: ['redis'], files: ['test/redis/'] },
  webhook: { projects: ['webhook'], files: ['test/webhook/'] },
  testing: {
    projects: ['webhook', 'rabbitmq', 'kafka', 'nats', 'redis', 'sqs-fifo', 'pg-boss'],
    files: ['publisher-contract', 'source-contract'],
  },
  nats: { projects: ['nats', 'nats-server'], files: ['test/nats/'] },
  sqs: { projects: ['sqs', 'sqs-fifo', 'sqs-standard'], files: ['test/sqs/'] },
  prometheus: { projects: [], files: [] },
  cli: { projects: ['cli'], files: ['test/cli/'] },
  command: { projects: ['cli'], files: ['test/cli/'] },
}

const [name, ...rest] = process.argv.slice(2)
if (name === undefined || !packages.includes(name)) {
  console.error(
    `Which package? One of ${packages.toSorted().join(', ')}. Example: npm run test:package -- outbox`,
  )
  process.exit(2)
}

if (name === 'txbox') {
  console.error(
    'This package holds no code of its own: npm run check:installs installs it and runs its programs.',
  )
  process.exit(2)
}

const { projects, files } = SUITES[name] ?? { projects: ['postgres'], files: [`test/contract/${name}/`] }
const units = globSync('test/unit/*.test.ts', { cwd: root }).filter((file) =>
  readFileSync(path.join(root, file), 'utf8').match(`(@txbox/|packages/)${name}['/]`),
)
const chosen = rest.includes('--project') ? [] : ['unit', ...projects].flatMap((each) => ['--project', each])
const { status } = spawnSync('vitest', ['run', ...chosen, ...rest, ...files, ...units], {
  cwd: root,
  stdio: 'inherit',
  env: {
    ...process.env,
    PATH: `${path.join(root, 'node_modules', '.bin')}${path.delimiter}${process.env.PATH}`,
  },
  shell: process.platform === 'win32',
})
process.exit(status ?? 1)
