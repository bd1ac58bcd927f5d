import { USAGE, parseArguments, type BenchOptions, type DatabaseName } from './arguments.ts'
import { mysqlServer } from './mysql/mysql-server.ts'
import { postgresServer } from './postgres/postgres-server.ts'
import { formatTargets, type Target } from './report/target.ts'
import type { BenchServer } from './suite.ts'

/** One entry for each database that can be measured. */
const SERVERS: Readonly<Record<DatabaseName, () => Promise<BenchServer>>> = {
  postgres: postgresServer,
  mysql: () => mysqlServer('mysql'),
  mariadb: () => mysqlServer('mariadb'),
}

// The promise is not awaited here: it rejects on Ctrl-C, and only the signal's listener may end the process.
main(process.argv.slice(2)).then(
  (code) => (process.exitCode = code),
  (error: unknown) => {
    process.exitCode = 1
    console.error(error)
  },
)

async function main(args: readonly string[]): Promise<number> {
  let options: BenchOptions | 'help'
  try {
    options = parseArguments(args)
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    return 2
  }
  if (options === 'help') {
    console.log(USAGE)
    return 0
  }
  const startedAt = performance.now()
  const targets = await measureServer(await SERVERS[options.database](), options)
  if (targets.length > 0) console.log(`\n${formatTargets(targets)}`)
  console.log(
    `\nMedians of ${options.rounds} interleaved rounds; ratios are taken round by round. ` +
      `${Math.round((performance.now() - startedAt) / 1000)} s in all.`,
  )
  return 0
}

async function measureServer(server: BenchServer, options: BenchOptions): Promise<readonly Target[]> {
  const removeListeners = disposeOnSignal(server)
  try {
    for (const [name, value] of server.about) console.log(`${name.padEnd(12)}${value}`)
    console.log(
      `${'rounds'.padEnd(12)}${options.rounds} and one to warm up, ${options.secondsPerRound} s a variant and round`,
    )
    const missing = options.suites.filter((name) => !server.suites.some((suite) => suite.name === name))
    if (missing.length > 0)
      console.log(`${'left out'.padEnd(12)}${missing.join(', ')}: not measured on this database`)
    const targets: Target[] = []
    for (const suite of server.suites) {
      if (options.suites.includes(suite.name)) targets.push(...(await suite.run(options)))
    }
    return targets
  } finally {
    await server.dispose()
    removeListeners()
  }
}

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const

/** Ctrl-C drops the databases first. A second Ctrl-C ends the process at once. */
function disposeOnSignal(server: BenchServer): () => void {
  const signals = Object.keys(EXIT_CODES) as (keyof typeof EXIT_CODES)[]
  const onSignal = (signal: NodeJS.Signals): void => {
    removeListeners()
    console.error(`\n${signal}: removing what the run has made`)
    // Whatever is in flight now loses its database: its errors must not end us before that is done.
    process.on('uncaughtException', () => undefined)
    const exit = (): never => process.exit(EXIT_CODES[signal as keyof typeof EXIT_CODES])
    server.dispose().then(exit, exit)
  }
  const removeListeners = (): void => {
    for (const signal of signals) process.off(signal, onSignal)
  }
  for (const signal of signals) process.on(signal, onSignal)
  return removeListeners
}
