// How the programs of this folder die, or are paused, at an exact step: by a real signal that they send themselves.
import { flushCompileCache } from 'node:module'
import path from 'node:path'
import { Client, Pool, type PoolConfig } from 'pg'

/** A step: one of its statements, or something that the program itself does and names. */
export type Step =
  | { readonly statement: string; readonly nth?: number; readonly phase: 'before' | 'sent' | 'answered' }
  | { readonly point: string; readonly nth?: number }

export interface Fate {
  readonly step: Step
  readonly signal: 'SIGKILL' | 'SIGSTOP'
}

/** What a test sends a program, as JSON in its first argument. */
export interface ProgramConfig {
  readonly url: string
  /** An append-only file: what it says survives every kill. */
  readonly log: string
  readonly fate?: Fate | undefined
  readonly pipeline?: boolean
}

export function configOf<C extends ProgramConfig>(): C {
  // A test that dies takes its programs with it.
  process.once('disconnect', () => process.exit(1))
  // A killed process would not write the compiled code that the next program of the test starts with.
  flushCompileCache()
  return JSON.parse(process.argv[2] ?? '{}') as C
}

/** Reports an event to the test. */
export function report(text: string): void {
  process.send?.(text)
}

type Callback = (...answer: unknown[]) => void

/** Counts the steps of this process, and meets its fate at the right one. */
export class Mortal {
  readonly #fate: Fate | undefined
  #seen = 0

  constructor(fate: Fate | undefined) {
    this.#fate = fate
  }

  /** Must be called when the program reaches this step. */
  reach(point: string): void {
    const step = this.#fate?.step
    if (step !== undefined && 'point' in step && step.point === point) this.#meet(step.nth)
  }

  /** A pool whose statements are steps. */
  pool(config: ProgramConfig, max = 6): Pool {
    const reach = (text: string): 'before' | 'sent' | 'answered' | undefined => this.phaseOf(text)
    const signal = (): void => this.signal()
    const signalled =
      (callback: Callback): Callback =>
      (...answer) => {
        signal()
        callback(...answer)
      }
    class MortalClient extends Client {
      // oxlint-disable-next-line typescript/no-explicit-any -- every overload of query passes through
      override query(...parameters: any[]): any {
        const [statement] = parameters as [string | { text?: string; callback?: Callback }]
        const phase = reach(typeof statement === 'string' ? statement : (statement.text ?? ''))
        if (phase === 'before') signal()
        const callback: unknown = parameters.at(-1)
        if (phase === 'answered' && typeof callback === 'function') {
          parameters[parameters.length - 1] = signalled(callback as Callback)
        }
        if (phase === 'answered' && typeof statement === 'object' && statement.callback !== undefined) {
          statement.callback = signalled(statement.callback)
        }
        const result = (super.query as (...all: unknown[]) => unknown)(...parameters)
        if (phase === 'sent') signal()
        return phase === 'answered' && result instanceof Promise ? result.finally(signal) : result
      }
    }
    const options: PoolConfig & { pipeline: boolean } = {
      connectionString: config.url,
      // By this name a test finds the statements that the server still runs for a dead program.
      application_name: path.basename(process.argv[1] ?? '', '.ts'),
      max,
      pipeline: config.pipeline ?? false,
      Client: MortalClient,
    }
    const pool = new Pool(options)
    pool.on('error', () => undefined)
    return pool
  }

  /** Is this statement the step, and at which of its phases? Each call counts one. */
  phaseOf(text: string): 'before' | 'sent' | 'answered' | undefined {
    const step = this.#fate?.step
    if (step === undefined || !('statement' in step) || !new RegExp(step.statement, 'i').test(text))
      return undefined
    this.#seen += 1
    return this.#seen === (step.nth ?? 1) ? step.phase : undefined
  }

  #meet(nth = 1): void {
    this.#seen += 1
    if (this.#seen === nth) this.signal()
  }

  signal(): void {
    if (this.#fate !== undefined) process.kill(process.pid, this.#fate.signal)
  }
}
