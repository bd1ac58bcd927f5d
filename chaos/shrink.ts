import { runChaos } from './driver/chaos-run.ts'
import type { RunResult } from './driver/finish.ts'
import type { RunOptions } from './driver/run-parts.ts'
import type { FaultName } from './faults/fault-names.ts'

/** A try may take so many times the time that the failing run took, and some minutes more: races do not show each time. */
const TIMES = 2
const SPARE_MINUTES = 0.5
/** The time that a try takes beside its faults, in minutes: the servers start, and the workers finish what is left. */
const OVERHEAD_MINUTES = 0.5

export interface ShrinkOptions {
  /** No try begins that would end after so many minutes. */
  readonly mostMinutes: number
  readonly run?: (options: RunOptions) => Promise<Pick<RunResult, 'first'>>
  readonly print?: (line: string) => void
  /** A clock in ms with any starting point. */
  readonly now?: () => number
}

export interface Shrunk {
  readonly kinds: readonly FaultName[]
  readonly tries: number
  /** The command that repeats the run with these kinds. */
  readonly command: string
}

/**
 * Repeats a failing run with fewer kinds of faults: leaves out half of the kinds, then smaller parts, as long as the same
 * check still fails. The faults that stay keep their steps and their parameters. Ends early on Ctrl-C, and when the time
 * is over: the smallest set that failed until then is the result.
 */
export async function shrink(
  options: RunOptions,
  failed: Pick<RunResult, 'first' | 'foundAfterMs' | 'durationMs' | 'events'>,
  { mostMinutes, run = runChaos, print = console.log, now = () => performance.now() }: ShrinkOptions,
): Promise<Shrunk> {
  const seen = new Set(failed.events.filter(({ kind }) => kind === 'fault').map(({ name }) => name))
  const drawn = options.faults.filter((name) => seen.has(name))
  const minutes = Math.min(
    options.minutes,
    Math.ceil((((failed.foundAfterMs ?? failed.durationMs) / 60_000) * TIMES + SPARE_MINUTES) * 10) / 10,
  )
  const until = now() + (mostMinutes - minutes - OVERHEAD_MINUTES) * 60_000
  print(
    `Shrinking the ${drawn.length} kinds of faults that were injected: ${drawn.join(', ')}.\n` +
      `Each try takes up to ${minutes} min and the time to start and to finish; all tries, up to ${mostMinutes} min.`,
  )
  let tries = 0
  let isOver: string | undefined
  const stillFails = async (kinds: readonly FaultName[]): Promise<boolean> => {
    if (isOver !== undefined) return false
    if (options.signal.aborted) isOver = 'It was interrupted'
    else if (now() > until) isOver = 'Its time is over'
    if (isOver !== undefined) return false
    tries += 1
    const without = new Set(options.faults.filter((name) => !kinds.includes(name)))
    const { first } = await run({ ...options, minutes, without, onEvent: () => undefined })
    const isSame = first !== undefined && first.check === failed.first?.check
    // A try that Ctrl-C has interrupted counts only if it failed.
    if (options.signal.aborted) isOver = 'It was interrupted'
    const outcome = first === undefined && isOver !== undefined ? 'interrupted' : outcomeOf(first, isSame)
    print(`  try ${tries}, only ${kinds.join(', ')}: ${outcome}`)
    return isSame
  }
  const kinds = await smallest(drawn, stillFails)
  const command = commandOf(options, minutes, kinds)
  if (isOver !== undefined) print(`${isOver}: a smaller set may fail as well.`)
  print(
    kinds.length < drawn.length
      ? `After ${tries} tries the run still fails with ${kinds.length} of ${drawn.length} kinds: ${kinds.join(', ')}.`
      : `After ${tries} tries no smaller set has failed. All kinds stay: ${kinds.join(', ')}.`,
  )
  print(`Repeat it with:\n  ${command}`)
  return { kinds, tries, command }
}

function outcomeOf(first: RunResult['first'], isSame: boolean): string {
  if (first === undefined) return 'no violation'
  return isSame ? `fails. ${first.text}` : `another violation, which does not count. ${first.text}`
}

/** Delta debugging: a set of which no tried part can be left out. */
async function smallest(
  all: readonly FaultName[],
  stillFails: (kinds: readonly FaultName[]) => Promise<boolean>,
): Promise<readonly FaultName[]> {
  let kinds = all
  for (let parts = 2; kinds.length > 1;) {
    const size = Math.ceil(kinds.length / parts)
    const fewer = await firstThat(withoutParts(kinds, size), stillFails)
    if (fewer !== undefined) {
      kinds = fewer
      parts = 2
    } else if (size === 1) break
    else parts *= 2
  }
  return kinds
}

/** The kinds without the first so many, without the next so many, and so on. */
function withoutParts(kinds: readonly FaultName[], size: number): readonly (readonly FaultName[])[] {
  const sets: (readonly FaultName[])[] = []
  for (let from = 0; from < kinds.length; from += size) {
    sets.push(kinds.filter((_, index) => index < from || index >= from + size))
  }
  return sets
}

async function firstThat<T>(
  values: readonly T[],
  holds: (value: T) => Promise<boolean>,
): Promise<T | undefined> {
  for (const value of values) if (await holds(value)) return value
  return undefined
}

function commandOf(options: RunOptions, minutes: number, kinds: readonly FaultName[]): string {
  const left = options.faults.filter((name) => !kinds.includes(name))
  return [
    `npm run chaos -- --database ${options.database} --seed ${options.seed} --minutes ${minutes}`,
    ...(options.plant === undefined ? [] : [`--plant ${options.plant.name}`]),
    `--faults ${options.faults.join(',')}`,
    ...(left.length === 0 ? [] : [`--without ${left.join(',')}`]),
  ].join(' ')
}
