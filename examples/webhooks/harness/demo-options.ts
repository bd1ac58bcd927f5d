import { parseArgs } from 'node:util'
import { DATABASE_KINDS, type DatabaseKind } from './database-server.ts'

export interface DemoOptions {
  readonly deliveries: number
  readonly seed: number
  readonly kill: boolean
  readonly database: DatabaseKind
}

/** The arguments are wrong: one line, exit code 2. */
export class WrongUsage extends Error {}

export const DEFAULTS = { deliveries: 3000, seed: 1 }

export const HELP = `npm run demo [-- options]

Sends real GitHub webhooks, each one to three times, through two services that are killed again and again, and checks
in their databases that every effect happened once and in order.

  --deliveries N   how many different webhooks, 1 to 100000 (default ${DEFAULTS.deliveries})
  --kill none      kill nothing (default: random; the receiver, the relay and the second service, 6 times each)
  --database KIND  ${DATABASE_KINDS.join(', ')} (default ${DATABASE_KINDS[0]})
  --seed N         another choice of webhooks and of moments to kill (default ${DEFAULTS.seed})
  --help           this text

  DATABASE_URL     a server of that kind where databases may be created; they are dropped at the end (default: one
                   that is started for the demo: PostgreSQL comes along, of the others the program must be installed)
  AMQP_URL         a RabbitMQ, or none for local HTTP (default: amqp://guest:guest@127.0.0.1:5672 if it answers)`

/** @returns `'help'` if the arguments ask for help. @throws {WrongUsage} */
export function parseOptions(args: readonly string[]): DemoOptions | 'help' {
  const values = parse(args)
  if (values.help === true) return 'help'
  if (values.kill !== undefined && values.kill !== 'none' && values.kill !== 'random') {
    throw new WrongUsage(`--kill takes 'none' or 'random', not '${values.kill}'.`)
  }
  return {
    deliveries: integer('--deliveries', values.deliveries, {
      min: 1,
      max: 100_000,
      default: DEFAULTS.deliveries,
    }),
    seed: integer('--seed', values.seed, { min: 0, max: 2 ** 32 - 1, default: DEFAULTS.seed }),
    kill: values.kill !== 'none',
    database: kindOf(values.database),
  }
}

function parse(
  args: readonly string[],
): Partial<Record<'database' | 'deliveries' | 'kill' | 'seed', string>> & { help?: boolean } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        database: { type: 'string' },
        deliveries: { type: 'string' },
        kill: { type: 'string' },
        seed: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    })
    return values
  } catch (error) {
    throw new WrongUsage(`${(error as Error).message.split(/[\n.]/)[0]}.`, { cause: error })
  }
}

function kindOf(given: string | undefined): DatabaseKind {
  if (given === undefined) return DATABASE_KINDS[0]
  const kind = DATABASE_KINDS.find((name) => name === given)
  if (kind === undefined) {
    throw new WrongUsage(`--database takes one of ${DATABASE_KINDS.join(', ')}, not '${given}'.`)
  }
  return kind
}

function integer(
  name: string,
  given: string | undefined,
  { min, max, default: otherwise }: { min: number; max: number; default: number },
): number {
  if (given === undefined) return otherwise
  const value = Number(given)
  if (!/^\d+$/.test(given) || value < min || value > max) {
    throw new WrongUsage(`${name} takes a whole number from ${min} to ${max}, not '${given}'.`)
  }
  return value
}
