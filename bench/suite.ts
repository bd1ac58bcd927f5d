import type { BenchOptions, SuiteName } from './arguments.ts'
import type { Target } from './report/target.ts'

/** One benchmark on one database. It prints its own figures; main prints the targets of all suites again at the end. */
export interface Suite {
  readonly name: SuiteName
  run(options: BenchOptions): Promise<readonly Target[]>
}

/** A database server that can be measured, with its suites and its description. */
export interface BenchServer {
  /** Versions and settings, which are printed before the first measurement. */
  readonly about: readonly (readonly [name: string, value: string])[]
  readonly suites: readonly Suite[]
  /** Removes everything that the run has created on the server. May be called at any time, and again. */
  dispose(): Promise<void>
}
