import { reasonOf } from '../errors/reason-of.ts'

/** Tells one mistake of a telemetry, by a process warning, and is silent about all later ones. */
export class ReportedOnce {
  #isTold = false

  failed(hook: string, error: unknown): void {
    this.wrong(hook, `threw (${reasonOf(error, 200)})`)
  }

  wrong(hook: string, what: string): void {
    if (this.#isTold) return
    this.#isTold = true
    process.emitWarning(
      `The telemetry's ${hook} ${what}. txbox goes on without it, and tells this once. Traces and metrics may be incomplete.`,
      { type: 'TxboxWarning', code: 'TXBOX_TELEMETRY' },
    )
  }
}
