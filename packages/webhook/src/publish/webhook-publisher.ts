import {
  BrokerUnavailableError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
import { OrderedBatch, reasonOf, serverOfUrl } from '@txbox/core/internal'
import { isAccepted, isAway, type Answer } from './answer.ts'
import { attempt, prepared, rejected, request, resultOf, type AttemptSettings } from './attempt.ts'
import { endpointUrl } from './endpoint-url.ts'
import { FailingHosts } from './failing-hosts.ts'
import { OneEndpoint } from './one-endpoint.ts'
import { sendByFetch } from './send-by-fetch.ts'
import { sendByHttp } from './send-by-http.ts'
import { HostSlots } from './slots.ts'
import { webhookOptions, type WebhookPublisherOptions } from './webhook-options.ts'

/** A probe that takes longer than this has failed. */
const PROBE_MS = 5000

/**
 * Publishes messages as webhooks: a POST to the URL that is the message's topic, or to one endpoint, signed as Standard Webhooks
 * prescribes. `fromWebhook` of the receiver reads the message back.
 *
 * On the wire: `webhook-id` = id, `webhook-timestamp` = the time of this attempt in seconds, `webhook-signature`; `content-type` and
 * `content-encoding` as in the message; the message's headers; type, ordering key, correlation id and time of creation as the headers
 * `txbox-type`, `txbox-key`, `txbox-correlation-id` and `txbox-time` (RFC 3339). The body is the payload, byte for byte. Only the id, the
 * time of the attempt and the body are signed, and not the content type, the fields named `txbox-…` and the other headers.
 *
 * - A message is accepted when the endpoint answers 2xx. Redirects are not followed.
 * - 410 and the answers that blame the request (400, 405, 406, 411, 413, 414, 415, 422, and all 4xx but those that follow) reject it
 *   permanently. After 3xx, 401, 403, 404, 408, 425, 429 and 5xx it can be tried again; 408, 425, 429 and 5xx may ask for a pause
 *   (`Retry-After`), up to 24 h. After 429 no attempt is counted.
 * - A message that HTTP cannot carry unchanged is rejected permanently before it is sent: a payload above `maxMessageBytes`, an id with
 *   a dot or with characters other than visible ASCII, a header that HTTP or the publisher sets, two headers whose names differ only by
 *   case, a value above U+00FF or with white space at an end.
 * - A host of which no address is allowed rejects the message, which can be tried again.
 * - Without `url`, a network error or a time-out is a rejection that counts. A host that failed five times in a row gets no message
 *   for 30 s, and its messages wait without counting. So do messages that found no slot of their host (`perHostConcurrency`) within
 *   `timeoutMs`, so that a slow host does not hold up the messages of others.
 * - With `url`, a network error, a time-out, 502, 503 and 504 throw if another message failed alike within 10 s, or if an unsigned HEAD
 *   request to the endpoint fails alike. Otherwise the message is at fault, and is rejected. So that such messages cannot stop the relay,
 *   ten of them a minute no longer throw after 60 s in which messages failed alike and HEAD was answered: they wait without counting until
 *   another message is accepted, and count from then on.
 *
 * Calls may overlap. Of each ordering key, one message is in flight at a time.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function webhookPublisher(options: WebhookPublisherOptions = {}): Publisher {
  return new WebhookPublisher(options)
}

class WebhookPublisher implements Publisher {
  readonly ordering = 'per-key'
  readonly system = 'http'
  readonly server: Publisher['server']
  readonly cloudEvents = { prefix: 'ce-', contentTypeAsAttribute: false, percentEncode: true }
  readonly #settings: AttemptSettings
  readonly #slots: HostSlots
  readonly #hosts = new FailingHosts()
  readonly #endpoint: OneEndpoint | undefined
  readonly #closed = new AbortController()
  readonly #disconnect: () => void

  constructor(options: WebhookPublisherOptions) {
    const { concurrency, perHostConcurrency, fetch, ...settings } = webhookOptions(options)
    const client = fetch === undefined ? sendByHttp() : { send: sendByFetch(fetch), close: () => undefined }
    this.server = settings.url === undefined ? undefined : serverOfUrl(settings.url)
    this.#settings = { ...settings, send: client.send }
    this.#disconnect = client.close
    // All messages of one endpoint wait for the same host, so that none of them holds up another host.
    const waitMs = settings.url === undefined ? settings.timeoutMs : Infinity
    this.#slots = new HostSlots({ concurrency, perHost: perHostConcurrency, waitMs })
    this.#endpoint =
      settings.url === undefined
        ? undefined
        : new OneEndpoint(async (signal) => (await this.#probe(signal)) === undefined)
  }

  async publish(
    messages: readonly OutboxMessage[],
    options: PublishOptions,
  ): Promise<readonly PublishResult[]> {
    options.signal.throwIfAborted()
    this.#closed.signal.throwIfAborted()
    const batch = new OrderedBatch(messages)
    const outage = new AbortController()
    const signal = AbortSignal.any([options.signal, this.#closed.signal, outage.signal])
    const follow = async (first: number): Promise<void> => {
      for (let place: number | undefined = first; place !== undefined;) {
        const result: PublishResult = await this.#publishOne(messages[place]!, signal)
        // A message that was answered after the call ended keeps its unknown result.
        const next = batch.settle(place, result)
        options.answered?.(place, result)
        place = next
      }
    }
    const ends = await Promise.allSettled(
      batch.due().map((place) =>
        follow(place).catch((error: unknown) => {
          outage.abort(error)
          throw error
        }),
      ),
    )
    if (ends.every(({ status }) => status === 'fulfilled')) return batch.results as PublishResult[]
    throw signal.reason
  }

  async check({ signal }: { signal: AbortSignal }): Promise<void> {
    signal.throwIfAborted()
    this.#closed.signal.throwIfAborted()
    const failure = await this.#probe(AbortSignal.any([signal, this.#closed.signal]))
    if (failure !== undefined) throw failure
  }

  close(): Promise<void> {
    if (!this.#closed.signal.aborted) {
      this.#closed.abort(
        new BrokerUnavailableError(
          'The webhook publisher is closed. It is unknown whether messages in flight were published. Create a new publisher.',
        ),
      )
      this.#disconnect()
    }
    return Promise.resolve()
  }

  async #publishOne(message: OutboxMessage, signal: AbortSignal): Promise<PublishResult> {
    const settings = this.#settings
    let to: ReturnType<typeof prepared>
    try {
      to = prepared(message, settings)
    } catch (error) {
      return { status: 'rejected', retryable: false, error }
    }
    const { url } = to
    const outcome = await this.#slots.run(url.host, signal, async (): Promise<PublishResult> => {
      if (this.#endpoint === undefined && !this.#hosts.admits(url.host)) {
        return {
          ...rejected(message, url, 'the host could not be reached five times in a row'),
          counted: false,
        }
      }
      let answer: Answer | PublishResult
      try {
        answer = await attempt(message, to, settings, signal)
      } catch (error) {
        signal.throwIfAborted()
        return await this.#unanswered(message, url, error, signal)
      }
      if (typeof answer.status === 'string') return answer
      const { status } = answer
      const result = resultOf(message, to, answer, settings)
      if (this.#endpoint === undefined) this.#hosts.answered(url.host)
      else if (isAway(status)) {
        const away = outage(url, `it answered ${status}`)
        return await this.#failedAt(this.#endpoint, message, result, away, signal)
      } else this.#endpoint.answered(message.id, isAccepted(status))
      return result
    })
    if (outcome !== 'busy') return outcome
    const busy = `its host was busy with other requests for ${settings.timeoutMs} ms`
    return { ...rejected(message, url, busy), counted: false }
  }

  async #unanswered(
    message: OutboxMessage,
    url: URL,
    error: unknown,
    signal: AbortSignal,
  ): Promise<PublishResult> {
    const result = rejected(message, url, reasonOf(error), { cause: error })
    if (this.#endpoint !== undefined) {
      const away = outage(url, reasonOf(error), error)
      return await this.#failedAt(this.#endpoint, message, result, away, signal)
    }
    this.#hosts.failed(url.host)
    return result
  }

  /** The result of a message for which the one endpoint did not answer, or answered that it is away. @throws `away` in an outage. */
  async #failedAt(
    endpoint: OneEndpoint,
    { id }: OutboxMessage,
    result: PublishResult,
    away: BrokerUnavailableError,
    signal: AbortSignal,
  ): Promise<PublishResult> {
    const fault = await endpoint.failed(id, signal)
    if (fault === 'away') throw away
    return fault === 'undecided' && result.status === 'rejected' ? { ...result, counted: false } : result
  }

  /** @returns why the one endpoint is away; `undefined` if it is there, or if each message has an endpoint of its own. */
  async #probe(signal: AbortSignal): Promise<BrokerUnavailableError | undefined> {
    const endpoint = this.#settings.url === undefined ? undefined : endpointUrl(this.#settings.url)
    if (endpoint === undefined) return undefined
    const { url, credentials } = endpoint
    const timeoutMs = Math.min(this.#settings.timeoutMs, PROBE_MS)
    const headers = { 'user-agent': 'txbox', ...this.#settings.headers, ...credentials }
    try {
      const outgoing = { method: 'HEAD', url, headers, body: undefined } as const
      const { status } = await request(outgoing, { ...this.#settings, timeoutMs }, signal)
      return isAway(status) ? outage(url, `it answered ${status}`) : undefined
    } catch (error) {
      signal.throwIfAborted()
      return outage(url, reasonOf(error), error)
    }
  }
}

function outage(url: URL, reason: string, cause?: unknown): BrokerUnavailableError {
  return new BrokerUnavailableError(
    `The endpoint at ${url.origin} cannot be reached: ${reason.replace(/[.\s]+$/, '')}.`,
    cause === undefined ? {} : { cause },
  )
}
