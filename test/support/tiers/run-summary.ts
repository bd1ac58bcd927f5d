import { writeSync } from 'node:fs'
import type { Reporter, SerializedError, TestCase, TestModule, Vitest } from 'vitest/node'
import { isDeclared } from './skips.ts'
import { leftOut, tierOfRun } from './tier.ts'

/** The number of projects, and of files, that are listed as the longest. */
const LONGEST = 15

/**
 * Ends the run's output with: what was left out, skips that the ledger does not contain, tests that failed before
 * they passed, which projects and files took the longest, how long the run took, and as the very last line `N passed, N failed`, which programs read. With CI=true a
 * project without a server and undeclared skips fail the run; what the quick tier leaves out does not.
 */
export class RunSummary implements Reporter {
  #vitest: Vitest | undefined
  #lines: string[] = []
  #passed = 0
  #failed = 0
  #skipped = 0
  /** When the run began, on the monotonic clock: the search for servers counts, too. */
  #startedAt = 0

  onInit(vitest: Vitest): void {
    this.#vitest = vitest
    this.#startedAt = performance.now()
    if (vitest.config.watch) return
    // Servers are stopped, and may report errors, after the reporters have finished, so this runs when the process ends.
    process.once('exit', () => this.#print())
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const ci = isCi()
    this.#lines = []
    this.#passed = this.#skipped = 0
    this.#failed = unhandledErrors.length
    const undeclared: string[] = []
    const flaky: string[] = []
    for (const module of modules) {
      const failedBefore = this.#failed
      for (const test of module.children.allTests()) {
        this.#count(test)
        if (test.diagnostic()?.flaky === true)
          flaky.push(`${test.project.name}: ${module.relativeModuleId} > ${test.fullName}`)
        if (isUndeclaredSkip(test)) undeclared.push(`${module.relativeModuleId} > ${test.fullName}`)
      }
      // A file that fails to load, or whose hooks fail, is a failure without a failed test.
      if (!module.ok() && this.#failed === failedBefore) this.#failed += 1
    }
    const filtered = this.#vitest?.config.testNamePattern !== undefined
    if (undeclared.length > 0 && !filtered) {
      this.#lines.push(
        'Skipped without an entry in the ledger (test/support/tiers/skips.ts):',
        ...undeclared.map(indent),
      )
      if (ci) this.#failed += undeclared.length
    }
    // Each flaky test is a race in the test or in the code, which must be investigated.
    if (flaky.length > 0) this.#lines.push('FLAKY: failed, then passed:', ...flaky.map(indent))
    for (const project of this.#vitest?.projects ?? []) {
      const { missing, optional } = project.getProvidedContext()
      for (const reason of missing ?? []) {
        this.#lines.push(`LEFT OUT: project ${project.name}. ${reason}`)
        if (ci && !optional) this.#failed += 1
      }
    }
    this.#lines.push(...leftOut(), ...longest(modules))
    if (this.#vitest?.config.watch) this.#print()
  }

  #count(test: TestCase): void {
    const { state } = test.result()
    if (state === 'passed') this.#passed += 1
    else if (state === 'failed') this.#failed += 1
    else this.#skipped += 1
  }

  #print(): void {
    if (this.#failed > 0) process.exitCode = 1
    // A run that fails before or after its tests has failed, whatever the results of the tests are.
    else if (process.exitCode !== undefined && process.exitCode !== 0) this.#failed = 1
    const skipped = this.#skipped > 0 ? `, ${this.#skipped} skipped` : ''
    const last = `${this.#passed} passed, ${this.#failed} failed${skipped}`
    const took = `Tier '${tierOfRun()}' took ${durationText(performance.now() - this.#startedAt)}.`
    writeSync(1, `\n${[...this.#lines, took, last].join('\n')}\n`)
  }
}

/** The projects and the files that took the longest. Several workers run side by side, so the run takes less than the sum. */
function longest(modules: readonly TestModule[]): readonly string[] {
  const projects = new Map<string, number>()
  const files = new Map<string, number>()
  for (const module of modules) {
    const { duration, setupDuration, prepareDuration, collectDuration } = module.diagnostic()
    const ms = duration + setupDuration + prepareDuration + collectDuration
    const { name } = module.project
    projects.set(name, (projects.get(name) ?? 0) + ms)
    files.set(`${name} ${module.relativeModuleId}`, ms)
  }
  const first = (times: ReadonlyMap<string, number>): string[] =>
    [...times]
      .toSorted(([, a], [, b]) => b - a)
      .slice(0, LONGEST)
      .map(([name, ms]) => indent(`${durationText(ms)}: ${name}`))
  if (modules.length <= LONGEST) return []
  return ['LONGEST projects and files:', ...first(projects), ...first(files)]
}

function isUndeclaredSkip(test: TestCase): boolean {
  const result = test.result()
  return result.state === 'skipped' && !isDeclared(result.note)
}

/** Whether CI is set to anything but 'false' or '0'. */
export function isCi(): boolean {
  const { CI } = process.env
  return CI !== undefined && CI !== '' && CI !== 'false' && CI !== '0'
}

/** `4 min 12 s` */
function durationText(ms: number): string {
  const seconds = Math.round(ms / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

function indent(line: string): string {
  return `  ${line}`
}
