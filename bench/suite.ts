import type { BenchOptions, SuiteName } from './arguments.ts'
import type { Target } from './report/target.ts'

/** One benchmark on one database. It prints its own figures; main prints the targets of all once more at the end. */
export interface Suite {
  readonly name: SuiteName
  run(options: BenchOptions): Promise<readonly Target[]>
}

/** A database server that can be measured: where its suites come from, and what has to be known of it. */
export interface BenchServer {
  /** Versions and settings, to be printed before anything is measured. */
  readonly about: readonly (readonly [name: string, value: string])[]
  readonly suites: readonly Suite[]
  /** Removes all that the run has left there. May be called at any time, and more than once. */
  dispose(): Promise<void>
}
