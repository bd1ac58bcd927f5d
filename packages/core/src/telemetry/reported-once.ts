import { reasonOf } from '../errors/reason-of.ts'

/** Reports the first mistake of a telemetry by a process warning, and no later ones. */
export class ReportedOnce {
  #hasReported = false

  failed(hook: string, error: unknown): void {
    this.wrong(hook, `threw (${reasonOf(error, 200)})`)
  }

  wrong(hook: string, what: string): void {
    if (this.#hasReported) return
    this.#hasReported = true
    process.emitWarning(
      `The telemetry's ${hook} ${what}. txbox goes on without it, and reports no further mistakes. Traces and metrics may be incomplete.`,
      { type: 'TxboxWarning', code: 'TXBOX_TELEMETRY' },
    )
  }
}
