import { InvalidOptionError, type OutboxMessage } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import { validateHeaderName } from 'node:http'
import { CONTENT_ENCODING } from '../schemes/http-headers.ts'
import { endpointUrl } from './endpoint-url.ts'
import { signingSecrets } from './signature.ts'
import { isPublicHttps, type AllowUrl } from './target.ts'
import { isHeaderValue, isReserved, type Headers } from './wire-headers.ts'

/** An hour. */
const LONGEST_TIMEOUT_MS = 3_600_000
/** 100 MiB. */
const LARGEST_MESSAGE_BYTES = 104_857_600
const URL_CHARACTERS = 8192

export interface WebhookPublisherOptions {
  /**
   * The one endpoint of all messages, `https://…` or `http://…`. A user and a password in it are sent as `authorization: Basic`.
   *
   * @default a message's topic is the URL of its endpoint
   */
  url?: string | undefined
  /**
   * The secret that signs, `whsec_` and the Base64 of 24 to 64 bytes; up to 10 of them while secrets are replaced, each with a signature
   * of its own; or a function that returns the secrets of a message's receiver. `undefined` is refused, because it is a variable that was
   * not set rather than the wish to send unsigned messages.
   *
   * @default messages are not signed, if the option is left out
   */
  secret?: string | readonly string[] | ((message: OutboxMessage) => string | readonly string[])
  /** Headers of all requests, such as `authorization`. A message with a header of one of these names is rejected permanently. */
  headers?: Readonly<Record<string, string>> | undefined
  /** The maximum number of requests at a time, 1 to 1000. @default 64 */
  concurrency?: number | undefined
  /**
   * The maximum number of requests to one host and port at a time, 1 to 1000. Without `url`, a message that waits for one of these
   * places longer than `timeoutMs` is rejected without counting, and tried again.
   *
   * @default 8
   */
  perHostConcurrency?: number | undefined
  /**
   * How long resolving the host, connecting, and waiting for the status of the answer may take together, 10 ms to an hour. The beginning of
   * the body of a refusal, for the text of the error, may take a second more. Make it shorter than the relay's `publishTimeoutMs` (60 s by
   * default), which aborts a call without any result for so long: its messages would be sent again without ever being rejected.
   *
   * @default 15_000
   */
  timeoutMs?: number | undefined
  /**
   * Whether this URL may be called at this address. Called for each address to which the host of the URL resolves; only these addresses
   * are connected to. Return false for every address that your users must not reach.
   *
   * @default https only, and no private, loopback, link-local, reserved or documentation address
   */
  allow?: AllowUrl | undefined
  /**
   * Sends the requests instead of Node's own client, for example through a proxy. It resolves the host by itself, so that it may connect
   * to another address than `allow` has seen.
   */
  fetch?: typeof globalThis.fetch | undefined
  /** The maximum payload, 1 byte to 100 MiB: a larger message is rejected permanently before it is sent. @default 1 MiB */
  maxMessageBytes?: number | undefined
}

/** The checked options. */
export interface WebhookSettings {
  readonly url: string | undefined
  readonly secretOf: ((message: OutboxMessage) => unknown) | undefined
  readonly headers: Headers
  readonly concurrency: number
  readonly perHostConcurrency: number
  readonly timeoutMs: number
  readonly allow: AllowUrl
  readonly fetch: typeof globalThis.fetch | undefined
  readonly maxMessageBytes: number
}

/** @throws {InvalidOptionError} for a wrong option. */
export function webhookOptions(options: WebhookPublisherOptions): WebhookSettings {
  const check = new OptionChecker('webhookPublisher', options).known(
    ...['url', 'secret', 'headers', 'concurrency', 'perHostConcurrency'],
    ...['timeoutMs', 'allow', 'fetch', 'maxMessageBytes'],
  )
  const requests = { min: 1, max: 1000 }
  return {
    url: urlOf(check, options),
    secretOf: secretOf(check, options),
    headers: headersOf(check, options),
    concurrency: check.integer('concurrency', { ...requests, default: 64 }),
    perHostConcurrency: check.integer('perHostConcurrency', { ...requests, default: 8 }),
    timeoutMs: check.milliseconds('timeoutMs', { min: 10, max: LONGEST_TIMEOUT_MS, default: 15_000 }),
    allow: check.callback<AllowUrl>('allow') ?? isPublicHttps,
    fetch: check.callback<typeof globalThis.fetch>('fetch'),
    maxMessageBytes: check.integer('maxMessageBytes', {
      min: 1,
      max: LARGEST_MESSAGE_BYTES,
      default: 1_048_576,
    }),
  }
}

function urlOf(check: OptionChecker, options: WebhookPublisherOptions): string | undefined {
  if ((options.url ?? undefined) === undefined) return undefined
  const url = check.text('url', { max: URL_CHARACTERS })
  // The URL may have a password in it, and is not shown.
  if (endpointUrl(url) !== undefined) return url
  throw new InvalidOptionError(`${check.where}: the option 'url' must be a URL such as https://host/path.`)
}

function secretOf(check: OptionChecker, options: WebhookPublisherOptions): WebhookSettings['secretOf'] {
  if (!('secret' in options)) return undefined
  const secret: WebhookPublisherOptions['secret'] | null = options.secret
  if (secret === undefined || secret === null) {
    throw new InvalidOptionError(
      `${check.where}: the option 'secret' is ${String(secret)}. An environment variable may not be set. Leave the option out to send ` +
        'messages without a signature.',
    )
  }
  if (typeof secret === 'function') {
    return (message) => {
      const given: unknown = secret(message)
      // A function that finds no secret must not make a message unsigned.
      return given ?? ''
    }
  }
  signingSecrets(secret)
  return () => secret
}

function headersOf(check: OptionChecker, { headers = {} }: WebhookPublisherOptions): Headers {
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) {
    throw check.wrong('headers', 'an object of names and values')
  }
  const lower = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) {
    const key = name.toLowerCase()
    if (!isUsable(key, value) || lower.has(key)) {
      throw new InvalidOptionError(
        `${check.where}: the option 'headers' has a header that cannot be sent, or that the publisher sets itself: ` +
          `'${/^[\w-]{1,100}$/.test(name) ? name : '…'}'.`,
      )
    }
    lower.set(key, value)
  }
  return Object.fromEntries(lower)
}

/** @param name in lower case. */
function isUsable(name: string, value: unknown): value is string {
  if (typeof value !== 'string' || !isHeaderValue(name, value)) return false
  try {
    validateHeaderName(name)
  } catch {
    return false
  }
  // A message may have its own encoding, and headers named `txbox-…` are those of the message.
  return !isReserved(name) && name !== CONTENT_ENCODING && !name.startsWith('txbox-')
}
