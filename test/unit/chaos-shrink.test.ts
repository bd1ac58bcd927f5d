import { expect, test } from 'vitest'
import { parseArguments } from '../../chaos/arguments.ts'
import type { Violation } from '../../chaos/check/violation.ts'
import type { RunOptions } from '../../chaos/driver/run-parts.ts'
import type { FaultName } from '../../chaos/faults/fault-names.ts'
import { shrink } from '../../chaos/shrink.ts'

const FAULTS: readonly FaultName[] = ['kill', 'terminate', 'latency', 'failover', 'deadlocks', 'queue-full']
const INJECTED = FAULTS.slice(0, 5)
const violation: Violation = { check: 'order', text: 'Change 2 came after change 5.' }
const failed = {
  first: violation,
  foundAfterMs: 30_000,
  durationMs: 60_000,
  events: INJECTED.map((name) => ({ kind: 'fault' as const, name, text: name, fromMs: 0, toMs: 1 })),
}

function options(more: Partial<RunOptions> = {}): RunOptions {
  const signal = new AbortController().signal
  const rest = { database: 'mysql', minutes: 10, seed: 7, plant: undefined, keep: false } as const
  return { ...rest, faults: FAULTS, without: new Set(), onEvent: () => undefined, signal, ...more }
}

/** A run that fails with these kinds, whatever else is among the faults. */
function failsWith(needed: readonly FaultName[], tried: RunOptions[] = [], found = violation) {
  return async (run: RunOptions) => {
    tried.push(run)
    return { first: needed.every((name) => !run.without.has(name)) ? found : undefined }
  }
}

const print = (): void => undefined

test('the smallest set of faults is found, and the kinds that were never injected are left out', async () => {
  const tried: RunOptions[] = []
  const run = failsWith(['terminate', 'failover'], tried)
  const { kinds, tries } = await shrink(options(), failed, { mostMinutes: 1000, run, print })
  expect(kinds).toEqual(['terminate', 'failover'])
  expect(tries).toBe(tried.length)
  for (const one of tried) {
    expect(one.without).toContain('queue-full')
    expect(one.faults).toEqual(FAULTS)
    expect(one.minutes).toBe(1.5)
  }
})

test('the printed command is valid on the command line, and repeats the last failing run', async () => {
  for (const plant of [undefined, 'no-fence', 'trust-expired-lease']) {
    const words = ['--database', 'mysql', '--faults', FAULTS.join(',')]
    const given = parseArguments(plant === undefined ? words : [...words, '--plant', plant])
    if (given === 'help') throw new Error('help')
    for (const needed of [['kill'], INJECTED] as const) {
      const tools = { mostMinutes: 1000, run: failsWith(needed), print }
      const { command, kinds } = await shrink(options({ plant: given.plant }), failed, tools)
      const again = parseArguments(command.replace('npm run chaos -- ', '').split(' '))
      expect(again).toMatchObject({
        database: 'mysql',
        seed: 7,
        minutes: 1.5,
        plant: given.plant,
        faults: FAULTS,
      })
      expect(FAULTS.filter((name) => again !== 'help' && !again.without.has(name))).toEqual(kinds)
    }
  }
})

test('a violation of another check does not count as the same failure', async () => {
  const other: Violation = { check: 'standstill', text: 'Shard 3 has stood still.' }
  const lines: string[] = []
  const run = failsWith(['kill'], [], other)
  const { kinds } = await shrink(options(), failed, {
    mostMinutes: 1000,
    run,
    print: (line) => lines.push(line),
  })
  expect(kinds).toEqual(INJECTED)
  expect(lines.join('\n')).toContain('another violation, which does not count. Shard 3 has stood still.')
})

test('no try begins that would exceed the time limit, and the smallest set so far is the result', async () => {
  let ms = 0
  const tried: RunOptions[] = []
  const fails = failsWith(['kill'], tried)
  const run = async (one: RunOptions): ReturnType<typeof fails> => {
    ms += 120_000
    return fails(one)
  }
  const lines: string[] = []
  const tools = { mostMinutes: 5, run, now: () => ms, print: (line: string) => lines.push(line) }
  const { kinds } = await shrink(options(), failed, tools)
  expect(tried.length).toBe(2)
  expect(ms).toBeLessThanOrEqual(5 * 60_000)
  expect(kinds).toEqual(['kill', 'terminate', 'latency'].slice(0, kinds.length))
  expect(kinds.length).toBeLessThan(INJECTED.length)
  expect(lines.join('\n')).toContain('Its time is over: a smaller set may fail as well.')
})

test('Ctrl-C ends the shrinking', async () => {
  const tried: RunOptions[] = []
  const run = failsWith([], tried)
  const signal = AbortSignal.abort()
  await shrink(options({ signal }), failed, { mostMinutes: 1000, run, print })
  expect(tried).toEqual([])
})

test('a try that Ctrl-C interrupted is not reported as a try without a violation', async () => {
  const controller = new AbortController()
  const lines: string[] = []
  const run = async (): Promise<{ first: undefined }> => {
    controller.abort()
    return { first: undefined }
  }
  const tools = { mostMinutes: 1000, run, print: (line: string) => lines.push(line) }
  const { kinds, tries } = await shrink(options({ signal: controller.signal }), failed, tools)
  expect([kinds, tries]).toEqual([INJECTED, 1])
  const text = lines.join('\n')
  expect(text).toContain(': interrupted')
  expect(text).toContain('It was interrupted: a smaller set may fail as well.')
  expect(text).not.toContain('no violation')
})
