import { isCausedBy, propertyOf } from '@txbox/core/internal'
import { PermanentError } from '@txbox/core'
import { BODY_BYTES, BODY_MS, isAccepted } from './answer.ts'
import type { Send } from './send-by-http.ts'

/** Reasons of `fetch` for refusing a URL, whatever is sent there. */
const REFUSED_URL = new Set<unknown>(['bad port', 'unknown scheme'])

/** Sends requests with the `fetch` of the user, which resolves the host by itself. */
export function sendByFetch(fetch: typeof globalThis.fetch): Send {
  return async ({ method, url, headers, body }, _, signal) => {
    const request = { method, headers: { ...headers }, redirect: 'manual', signal } as const
    const response = await fetch(
      url,
      body === undefined ? request : { ...request, body: body as Uint8Array<ArrayBuffer> },
    ).catch((error: unknown) => {
      if (!isCausedBy(error, (at) => REFUSED_URL.has(propertyOf(at, 'message')))) throw error
      throw new PermanentError('fetch refuses the URL', { cause: error })
    })
    // A fetch that does not look at the signal may answer when nobody waits any more.
    if (signal.aborted) response.body?.cancel().catch(() => undefined)
    const status = response.type === 'opaqueredirect' ? 302 : response.status
    const retryAfter = response.headers.get('retry-after') ?? undefined
    return { status, retryAfter, text: () => beginningOf(response, isAccepted(status)) }
  }
}

async function beginningOf({ body }: Response, isIgnored: boolean): Promise<string> {
  if (body === null) return ''
  const chunks: Uint8Array[] = []
  const reader = body.getReader()
  // Ends a read that waits.
  const cancel = (): void => void reader.cancel().catch(() => undefined)
  const timer = setTimeout(cancel, BODY_MS)
  try {
    for (let bytes = 0; !isIgnored && bytes < BODY_BYTES;) {
      const { done, value } = await reader.read()
      if (done) break
      chunks.push(value as Uint8Array)
      bytes += (value as Uint8Array).byteLength
    }
  } catch {
    // The status is known: a text that broke off adds nothing.
  }
  clearTimeout(timer)
  // The answer may be endless.
  cancel()
  return Buffer.concat(chunks).subarray(0, BODY_BYTES).toString()
}
