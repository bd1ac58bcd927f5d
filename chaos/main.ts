import { writeFileSync } from 'node:fs'
import { USAGE, parseArguments, type ChaosOptions } from './arguments.ts'
import { runChaos } from './driver/chaos-run.ts'
import type { RunResult } from './driver/finish.ts'
import type { RunOptions } from './driver/run-parts.ts'
import { toHtml } from './report/html.ts'
import { toJson } from './report/json.ts'
import { formatResult } from './report/table.ts'
import { missingPrograms } from './missing-programs.ts'
import { shrink } from './shrink.ts'

// The promise is not awaited here: it rejects on Ctrl-C, and must not end the process before the servers have ended.
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error)
    process.exit(1)
  },
)

async function main(args: readonly string[]): Promise<number> {
  let options: ChaosOptions | 'help'
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
  const missing = await missingPrograms(options.database)
  for (const line of missing) console.error(line)
  if (missing.length > 0) return 2
  if (options.check) return 0
  const { database, minutes, seed, plant, faults, without, keep } = options
  console.log(
    `Chaos on ${database} for ${minutes} min, seed ${seed}${plant === undefined ? '' : `, with the bug '${plant.name}' planted`}.`,
  )
  const run: RunOptions = {
    database,
    minutes,
    seed,
    plant,
    faults,
    without,
    keep,
    onEvent: printEvent,
    signal: interrupted(),
  }
  const result = await runChaos(run)
  console.log(`\n${formatResult(result)}\n`)
  writeReports(options, result)
  if (result.first !== undefined && options.shrink) {
    await shrink(run, result, { mostMinutes: options.shrinkMinutes })
  }
  return exitCode(options, result)
}

function exitCode({ plant }: ChaosOptions, { first, durationMs, foundAfterMs }: RunResult): number {
  if (plant === undefined) return first === undefined ? 0 : 1
  const seconds = ((foundAfterMs ?? durationMs) / 1000).toFixed(0)
  if (first === undefined) {
    console.log(`The planted bug '${plant.name}' was NOT found within ${seconds} s.`)
    return 1
  }
  const when = foundAfterMs === undefined ? ', at the end of the run' : ''
  console.log(
    `The planted bug '${plant.name}' was found after ${seconds} s${when}, by the check '${first.check}'.`,
  )
  return 0
}

function writeReports({ json, html }: ChaosOptions, result: RunResult): void {
  if (json !== undefined) writeFileSync(json, toJson(result))
  if (html !== undefined) writeFileSync(html, toHtml(result))
}

const startedAt = performance.now()

function printEvent({ kind, name, text, step }: Parameters<RunOptions['onEvent']>[0]): void {
  const at = `${((performance.now() - startedAt) / 1000).toFixed(1).padStart(6)} s`
  console.log(
    `${at}  ${step === undefined ? '     ' : `#${String(step).padEnd(4)}`} ${kind === 'fault' ? '' : `${name}: `}${text}`,
  )
}

/** Ctrl-C ends the faults, and the checks judge the run so far; a second Ctrl-C ends the process at once. */
function interrupted(): AbortSignal {
  const controller = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(130)
      console.error(`\n${signal}: no more faults; again to end at once`)
      controller.abort()
    })
  }
  return controller.signal
}
