import { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted } from '@txbox/core/internal'
import type { AwsClient, AwsClientSettings, AwsCommands, OwnAwsClient } from './aws-client.ts'
import { reasonIn } from './aws-errors.ts'
import { loadSdk, type ServiceName } from './load-sdk.ts'

export interface AwsServiceSettings extends AwsClientSettings {
  /** A client of the user's. @default one that is made at the first request, and closed by `close` */
  readonly client: AwsClient | undefined
  readonly confirmTimeoutMs: number
}

interface ReadyService {
  readonly client: AwsClient
  readonly commands: AwsCommands
}

/** SQS or SNS: sends requests, each with a time limit. */
export class AwsService {
  readonly name: ServiceName
  readonly #settings: AwsServiceSettings
  readonly #closing = new AbortController()
  #ready: Promise<ReadyService> | undefined
  #own: OwnAwsClient | undefined

  constructor(name: ServiceName, settings: AwsServiceSettings) {
    this.name = name
    this.#settings = settings
  }

  /** The service in error messages, with the host of its endpoint, if one is set. */
  get title(): string {
    const { endpoint } = this.#settings
    return endpoint === undefined ? this.name : `${this.name} at ${new URL(endpoint).host}`
  }

  /**
   * Sends one request.
   *
   * @param command the name of the command without `Command`.
   * @param extraMs how much longer than usual the answer may take, such as for a long poll.
   * @throws the error of the client as it is; {@link BrokerUnavailableError} without an answer in time, after `close`, or if the client is not
   *   installed; the signal's reason when the signal is aborted.
   */
  async call<Output>(
    command: string,
    input: object,
    signal: AbortSignal | undefined,
    extraMs = 0,
  ): Promise<Output> {
    const ending = new AbortController()
    const stop = (reason: unknown): void => ending.abort(reason)
    const aborted = (): void => stop(signal!.reason)
    const closed = (): void => stop(this.#closing.signal.reason)
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason
    signal?.throwIfAborted()
    const timer = setTimeout(() => stop(this.#unanswered(extraMs)), this.#settings.confirmTimeoutMs + extraMs)
    signal?.addEventListener('abort', aborted, { once: true })
    this.#closing.signal.addEventListener('abort', closed, { once: true })
    try {
      return (await this.#send(command, input, ending.signal)) as Output
    } catch (error) {
      // The client replaces the reason of an abort by an error of its own.
      throw ending.signal.aborted ? ending.signal.reason : error
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
      this.#closing.signal.removeEventListener('abort', closed)
    }
  }

  /** Returns the error for a failure that leaves open what has happened. */
  unavailable(error: unknown): BrokerUnavailableError {
    if (error instanceof BrokerUnavailableError) return error
    return new BrokerUnavailableError(`${this.title} failed: ${reasonIn(error)}.`)
  }

  /** Ends all calls with this reason. */
  close(reason: Error): void {
    if (this.#closing.signal.aborted) return
    this.#closing.abort(reason)
    this.#own?.destroy()
  }

  async #send(command: string, input: object, abortSignal: AbortSignal): Promise<unknown> {
    this.#ready ??= this.#makeReady().catch((error: unknown) => {
      this.#ready = undefined
      throw error
    })
    const { client, commands } = await this.#ready
    abortSignal.throwIfAborted()
    const Command = commands[`${command}Command`]!
    // A client that does not listen to its signal would hold up the call.
    return unlessAborted(client.send(new Command(input), { abortSignal }), abortSignal)
  }

  async #makeReady(): Promise<ReadyService> {
    const { client } = this.#settings
    const sdk = await loadSdk(this.name)
    if (client !== undefined) return { client, commands: sdk.commands }
    this.#own = sdk.makeClient(this.#settings)
    if (this.#closing.signal.aborted) this.#own.destroy()
    return { client: this.#own, commands: sdk.commands }
  }

  #unanswered(extraMs: number): BrokerUnavailableError {
    const ms = this.#settings.confirmTimeoutMs + extraMs
    return new BrokerUnavailableError(
      `${this.title} has not answered within ${ms} ms. It is unknown whether it has processed the request.`,
    )
  }
}
