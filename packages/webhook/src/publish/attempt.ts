import { PermanentError, RetryLaterError, type OutboxMessage, type PublishResult } from '@txbox/core'
import { oneLine, reasonOf, unlessAborted } from '@txbox/core/internal'
import { isAccepted, isRetryable, retryAfterMs, type Answer } from './answer.ts'
import { endpointUrl } from './endpoint-url.ts'
import type { Outgoing, Send } from './send-by-http.ts'
import { quotedAnswer } from './quoted-answer.ts'
import { signatureHeaders, signingSecrets } from './signature.ts'
import { RefusedAddress, allowedAddresses, type AllowUrl } from './target.ts'
import { wireHeaders, type Headers } from './wire-headers.ts'

export interface AttemptSettings {
  /** The one endpoint; `undefined`: a message's topic is its URL. */
  readonly url: string | undefined
  readonly headers: Headers
  readonly secretOf: ((message: OutboxMessage) => unknown) | undefined
  readonly allow: AllowUrl
  readonly send: Send
  readonly timeoutMs: number
  readonly maxMessageBytes: number
}

/** Where a message goes, checked before anything is sent. */
export interface Prepared {
  readonly url: URL
  readonly headers: Headers
}

/** @throws {PermanentError} when the message cannot be sent unchanged, or to no such URL. */
export function prepared(message: OutboxMessage, settings: AttemptSettings): Prepared {
  const { id, payload, topic } = message
  const { maxMessageBytes } = settings
  if (payload.byteLength > maxMessageBytes) {
    throw new PermanentError(
      `Message ${oneLine(id)} has a payload of ${payload.byteLength} bytes; 'maxMessageBytes' is ${maxMessageBytes}. Store the data ` +
        'elsewhere and publish a reference to it, or raise that option.',
    )
  }
  const endpoint = endpointUrl(settings.url ?? topic)
  if (endpoint === undefined) {
    throw new PermanentError(
      `Message ${oneLine(id)} has a topic that is no URL of https or http. Publish it with the URL of the endpoint as its topic.`,
    )
  }
  const fixed = { 'user-agent': 'txbox', ...settings.headers, ...endpoint.credentials }
  return { url: endpoint.url, headers: wireHeaders(message, fixed) }
}

/**
 * Makes one attempt, and waits for the answer.
 *
 * @returns the answer, or the result of a message that was not sent.
 * @throws the error of the network, a time-out, or the signal's reason.
 */
export async function attempt(
  message: OutboxMessage,
  { url, headers }: Prepared,
  settings: AttemptSettings,
  signal: AbortSignal,
): Promise<Answer | PublishResult> {
  const body = message.payload
  let signature: Headers
  try {
    const secret = settings.secretOf?.(message)
    signature = signatureHeaders(message.id, body, secret === undefined ? [] : signingSecrets(secret))
  } catch (error) {
    return rejected(message, url, `its secret cannot be used: ${reasonOf(error)}`, { cause: error })
  }
  try {
    return await request(
      { method: 'POST', url, headers: { ...headers, ...signature }, body },
      settings,
      signal,
    )
  } catch (error) {
    if (error instanceof RefusedAddress) return rejected(message, url, error.message)
    if (error instanceof PermanentError) {
      const reason = reasonOf(error)
      return { status: 'rejected', retryable: false, error: new PermanentError(textOf(message, url, reason)) }
    }
    throw error
  }
}

/** Resolves the host, sends the request, and waits for the status of the answer, within `timeoutMs`. */
export async function request(
  outgoing: Outgoing,
  { allow, send, timeoutMs }: Pick<AttemptSettings, 'allow' | 'send' | 'timeoutMs'>,
  signal: AbortSignal,
): Promise<Answer> {
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  const either = AbortSignal.any([signal, timeout.signal])
  try {
    const addresses = await unlessAborted(allowedAddresses(outgoing.url, allow), either)
    const { status, retryAfter, text } = await unlessAborted(send(outgoing, addresses, either), either)
    // The status is the answer: it is not given up for a body that comes late, or never.
    clearTimeout(timer)
    return { status, retryAfter, text: await text() }
  } catch (error) {
    signal.throwIfAborted()
    throw timeout.signal.aborted ? timeout.signal.reason : error
  } finally {
    clearTimeout(timer)
  }
}

/** The result of a message whose endpoint has answered. Its text shows neither the path of the URL nor credentials. */
export function resultOf(
  message: OutboxMessage,
  { url, headers }: Prepared,
  answer: Answer,
  settings: Pick<AttemptSettings, 'headers'>,
): PublishResult {
  const { status } = answer
  if (isAccepted(status)) return { status: 'accepted' }
  const { authorization } = headers
  const hidden = [...Object.values(settings.headers), ...(authorization === undefined ? [] : [authorization])]
  const quoted = quotedAnswer(answer.text, url, hidden)
  const redirect = status >= 300 && status < 400 ? ', a redirect, which is not followed with a signature' : ''
  const reason = `the endpoint answered ${status}${redirect}${quoted === '' ? '' : `: ${quoted}`}`
  if (!isRetryable(status)) {
    return { status: 'rejected', retryable: false, error: new PermanentError(textOf(message, url, reason)) }
  }
  const result = rejected(message, url, reason)
  const pauseMs = retryAfterMs(answer)
  return {
    ...result,
    ...(pauseMs !== undefined && { retryAfterMs: pauseMs }),
    // The endpoint is busy: no message is at fault.
    ...(status === 429 && { counted: false }),
  }
}

export function rejected(
  message: OutboxMessage,
  url: URL,
  reason: string,
  options: { cause?: unknown } = {},
): PublishResult & { status: 'rejected' } {
  const error = new RetryLaterError({ message: textOf(message, url, reason), ...options })
  return { status: 'rejected', retryable: true, error }
}

/** Paths and queries of webhooks often have a secret, so that only the origin is shown. */
function textOf({ id }: OutboxMessage, url: URL, reason: string): string {
  return `Message ${oneLine(id)} was not accepted by ${url.origin}: ${reason.replace(/[.\s]+$/, '')}.`
}
