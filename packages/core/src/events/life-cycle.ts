import { InvalidOptionError } from '../errors/errors.ts'
import { OptionChecker } from '../options/options.ts'
import { hours } from '../time/durations.ts'

export interface StopOptions {
  timeoutMs?: number | undefined
}

/** @throws {InvalidOptionError} for an unknown or wrong option of a `stop`. */
export function stopTimeout(options: StopOptions): number {
  return new OptionChecker('stop', options)
    .known('timeoutMs')
    .milliseconds('timeoutMs', { min: 0, max: hours(1), default: 10_000 })
}

/** The end of a relay or a consumer: each is stopped once, and does not start again. */
export abstract class LifeCycle implements AsyncDisposable {
  readonly stopped: Promise<void>
  protected isStopping = false
  readonly #name: string
  readonly #ended = Promise.withResolvers<void>()

  constructor(name: 'Relay' | 'Consumer' | 'LocalConsumer' | 'Txbox') {
    this.#name = name
    this.stopped = this.#ended.promise
    // An 'error' event has reported the failure: a rejection that nobody handles must not end the process.
    this.stopped.catch(() => undefined)
  }

  async stop(options: StopOptions = {}): Promise<void> {
    const timeoutMs = stopTimeout(options)
    this.isStopping = true
    await this.end(timeoutMs)
    this.#ended.resolve()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Ends the work within `timeoutMs`. Called by each `stop`: a later call with a shorter time ends the earlier one, too. */
  protected abstract end(timeoutMs: number): Promise<void>

  /** Stops work that cannot continue; `stopped` rejects. */
  protected fail(error: unknown): void {
    this.#ended.reject(error)
    void this.stop()
  }

  /** @throws {InvalidOptionError} after a `stop`. */
  protected refuseStopped(where: string): void {
    if (!this.isStopping) return
    const kind = this.#name.replace(/(?<=[a-z])(?=[A-Z])/, ' ').toLowerCase()
    const text = `this ${kind} has been stopped. Create another with create${this.#name}.`
    throw new InvalidOptionError(`${where}: ${text}`)
  }
}

/** Stops the work when the signal is aborted. @returns the work. */
export function stoppedBy<W extends LifeCycle>(signal: AbortSignal | undefined, work: W): W {
  const stop = (): void => void work.stop()
  if (signal?.aborted === true) stop()
  signal?.addEventListener('abort', stop, { once: true })
  const forget = (): void => signal?.removeEventListener('abort', stop)
  work.stopped.then(forget, forget)
  return work
}
