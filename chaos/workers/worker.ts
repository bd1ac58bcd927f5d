import { Draw } from '../draw.ts'
import { CALM, type FromWorker, type Mode, type ToWorker, type WorkerConfig } from './worker-protocol.ts'

const REPORT_INTERVAL_MS = 500

/** This process as a worker of the driver: it reports, is told how to behave, and ends with the driver. */
export class Worker {
  readonly config: WorkerConfig
  /** `relay-1.3`: the slot and the process. */
  readonly name: string
  readonly draw: Draw
  mode: Mode = CALM
  /** Aborted by SIGTERM: the worker finishes its work in flight and ends. */
  readonly #ending = new AbortController()
  readonly #counts: Record<string, number> = {}
  #errors: Record<string, number> = {}

  constructor() {
    this.config = JSON.parse(process.argv[2] ?? '{}') as WorkerConfig
    const { slot, incarnation, seed } = this.config
    this.name = `${slot}.${incarnation}`
    this.draw = new Draw(`${seed} ${this.name}`)
    process.on('message', (message: ToWorker) => {
      if (message.what === 'mode') this.mode = message.mode
    })
    // Without its driver, no other process would end the worker.
    process.on('disconnect', () => process.exit(1))
    process.on('SIGTERM', () => this.#ending.abort())
    process.on('uncaughtException', (error) => {
      this.failed(error)
      console.error(error)
      this.report()
      process.exit(70)
    })
    process.on('warning', (warning) => this.failed(warning))
    setInterval(() => this.report(), REPORT_INTERVAL_MS).unref()
  }

  get ending(): AbortSignal {
    return this.#ending.signal
  }

  ready(): void {
    this.#send({ what: 'ready' })
  }

  count(name: string, by = 1): void {
    this.#counts[name] = (this.#counts[name] ?? 0) + by
  }

  /** An error that the worker survives: under chaos most are expected, and all are counted. */
  failed(error: unknown): void {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    const kind = text.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|\d+/g, '#').slice(0, 160)
    this.#errors[kind] = (this.#errors[kind] ?? 0) + 1
  }

  report(): void {
    const { rss, heapUsed } = process.memoryUsage()
    const errors = this.#errors
    this.#errors = {}
    this.#send({ what: 'report', counts: { ...this.#counts }, errors, rssBytes: rss, heapBytes: heapUsed })
  }

  /** Ends the process when its work is done. */
  async end(): Promise<never> {
    this.report()
    // Waits until the last report is sent.
    await new Promise((resolve) => setTimeout(resolve, 50))
    process.exit(0)
  }

  #send(message: FromWorker): void {
    if (process.connected) process.send?.(message, undefined, undefined, () => undefined)
  }
}

/** Milliseconds since 1970 on a clock that never jumps, also when the wall clock of this process is shifted. */
export function steadyNow(): number {
  return performance.timeOrigin + performance.now()
}
