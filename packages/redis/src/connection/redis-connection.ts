import { BrokerUnavailableError } from '@txbox/core'
import type { Connection } from '@txbox/core/internal'
import type { CommandArgument, CommandPort } from './command-port.ts'
import { reasonIn, refusalIn } from './redis-refusal.ts'

/** A connection to Redis that never reconnects, and whose commands are all answered, or fail together. */
export class RedisConnection implements Connection {
  readonly #port: CommandPort
  readonly #broken: (reason: string) => BrokerUnavailableError
  readonly #answerTimeoutMs: number
  /** The functions that reject the commands in flight. */
  readonly #inFlight = new Set<(reason: unknown) => void>()
  #timer: NodeJS.Timeout | undefined
  /** When Redis has answered last. */
  #answeredAt = -Infinity
  #failure: BrokerUnavailableError | undefined

  /**
   * @param broken creates the error of the calls of a connection that has failed for this reason.
   * @param answerTimeoutMs how long Redis may answer nothing while commands are in flight. Starts again with every answer.
   */
  constructor(
    port: CommandPort,
    broken: (reason: string) => BrokerUnavailableError,
    answerTimeoutMs: number,
  ) {
    this.#port = port
    this.#broken = broken
    this.#answerTimeoutMs = answerTimeoutMs
  }

  get failure(): BrokerUnavailableError | undefined {
    return this.#failure
  }

  /**
   * Sends a command.
   *
   * @throws {RedisRefusal} when Redis answers with an error.
   * @throws {BrokerUnavailableError} when it is unknown whether Redis has run the command.
   */
  send(args: readonly CommandArgument[]): Promise<unknown> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    return new Promise((resolve, reject) => {
      this.#inFlight.add(reject)
      this.#timer ??= setTimeout(() => this.#silent(), this.#answerTimeoutMs)
      try {
        this.#port.send(args).then(
          (answer) => {
            this.#answered(reject)
            resolve(answer)
          },
          (error: unknown) => this.#refused(error, reject),
        )
      } catch (error) {
        this.fail(error)
      }
    })
  }

  /** Must be called when the connection cannot be used any more. @returns the error of all its calls. */
  fail(error: unknown): BrokerUnavailableError {
    this.drop(error instanceof BrokerUnavailableError ? error : this.#broken(reasonIn(error)))
    return this.#failure!
  }

  drop(reason: BrokerUnavailableError): void {
    if (this.#failure !== undefined) return
    this.#failure = reason
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#port.end()
    for (const reject of this.#inFlight) reject(reason)
    this.#inFlight.clear()
  }

  close(reason: BrokerUnavailableError): Promise<void> {
    this.drop(reason)
    return Promise.resolve()
  }

  #answered(reject: (reason: unknown) => void): void {
    this.#inFlight.delete(reject)
    this.#answeredAt = performance.now()
    if (this.#inFlight.size > 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #refused(error: unknown, reject: (reason: unknown) => void): void {
    const refusal = refusalIn(error)
    if (refusal === undefined) {
      this.fail(error)
      return
    }
    this.#answered(reject)
    reject(refusal)
  }

  /** Called when the timer fires, which is not set for each answer, because there are many. */
  #silent(): void {
    const leftMs = this.#answeredAt + this.#answerTimeoutMs - performance.now()
    if (leftMs > 0) this.#timer = setTimeout(() => this.#silent(), Math.ceil(leftMs))
    else this.fail(new Error(`it did not answer within ${this.#answerTimeoutMs} ms`))
  }
}
