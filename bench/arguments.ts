import { parseArgs } from 'node:util'

export const SUITE_NAMES = [
  'inbox',
  'publish',
  'deduplication',
  'relay',
  'rabbitmq',
  'latency',
  'versioning',
  'gc',
  'queue',
  'local',
  'consumer',
  'brokers',
  'retries',
  'handles',
  'http',
] as const
export type SuiteName = (typeof SUITE_NAMES)[number]

/** These run only when they are named. */
const ONLY_NAMED: ReadonlySet<SuiteName> = new Set<SuiteName>([
  'brokers',
  'consumer',
  'handles',
  'http',
  'local',
  'queue',
  'retries',
])

export const DATABASE_NAMES = ['postgres', 'mysql', 'mariadb'] as const
export type DatabaseName = (typeof DATABASE_NAMES)[number]

export interface BenchOptions {
  readonly database: DatabaseName
  readonly suites: readonly SuiteName[]
  readonly rounds: number
  /** Seconds for which each variant is measured in each round, where the work is endless. */
  readonly secondsPerRound: number
  /** Runs also the suites that take many minutes. */
  readonly full: boolean
}

export const USAGE = `npm run bench -- [${SUITE_NAMES.join('|')} …] [--database NAME] [--rounds N] [--seconds N] [--full]

  brokers, consumer, handles, http, local, queue and retries run only when they are named.

  --database    ${DATABASE_NAMES.join(', ')} (default ${DATABASE_NAMES[0]})
  --rounds N    rounds of A B A B …, 1 to 100; medians want 5 or more (default 7)
  --seconds N   per variant and round, 0.1 to 600 (default 1)
  --full        also many clients, millions of rows, a pinned vacuum horizon: more than an hour

  DATABASE_URL  a server where databases may be created (default postgres://postgres@127.0.0.1:5432/postgres, or
                mysql://root@127.0.0.1:3306)
  RABBITMQ_URL  the RabbitMQ that the relay publishes to (default amqp://guest:guest@127.0.0.1:5672)
  NATS_URL, REDIS_URL, KAFKA_URL, SQS_URL  the other brokers of the suite brokers (default nats://127.0.0.1:4222,
                redis://127.0.0.1:6379, 127.0.0.1:9092, and no SQS)`

/** @throws {TypeError} for an unknown argument, or a value out of bounds. */
export function parseArguments(args: readonly string[]): BenchOptions | 'help' {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      database: { type: 'string', default: DATABASE_NAMES[0] },
      rounds: { type: 'string', default: '7' },
      seconds: { type: 'string', default: '1' },
      full: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return 'help'
  for (const name of positionals) {
    if (!isSuiteName(name)) throw new TypeError(`There is no benchmark '${name}'.`)
  }
  const database = DATABASE_NAMES.find((name) => name === values.database)
  if (database === undefined) throw new TypeError(`There is no database '${values.database}'.`)
  return {
    database,
    suites:
      positionals.length === 0
        ? SUITE_NAMES.filter((name) => !ONLY_NAMED.has(name))
        : SUITE_NAMES.filter((name) => positionals.includes(name)),
    rounds: Math.trunc(within('--rounds', values.rounds, 1, 100)),
    secondsPerRound: within('--seconds', values.seconds, 0.1, 600),
    full: values.full,
  }
}

function isSuiteName(name: string): name is SuiteName {
  return (SUITE_NAMES as readonly string[]).includes(name)
}

function within(name: string, text: string, min: number, max: number): number {
  const value = Number(text)
  if (!(value >= min && value <= max)) {
    throw new TypeError(`${name} must be a number from ${min} to ${max}, not '${text}'.`)
  }
  return value
}
