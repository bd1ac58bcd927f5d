import http, { type ClientRequest, type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { LookupFunction } from 'node:net'
import { BODY_BYTES, BODY_MS, isAccepted, type ArrivingAnswer } from './answer.ts'
import { DrainedAnswers } from './drained-answers.ts'
import type { Address } from './target.ts'
import type { Headers } from './wire-headers.ts'

/** Many servers close a connection that was idle for 5 s. */
const IDLE_MS = 3000

export interface Outgoing {
  readonly method: 'POST' | 'HEAD'
  readonly url: URL
  readonly headers: Headers
  readonly body: Uint8Array | undefined
}

/** Sends a request, to one of these addresses. Rejects if there is no answer, or when the signal is aborted. */
export type Send = (
  outgoing: Outgoing,
  addresses: readonly Address[],
  signal: AbortSignal,
) => Promise<ArrivingAnswer>

/** A connection is reused for the same addresses only: DNS may have other ones for the host by now, which were refused. */
const nameOf = (name: string, options: object): string => `${name}:${String(Reflect.get(options, 'pinned'))}`

class HttpAgent extends http.Agent {
  override getName(options: object = {}): string {
    return nameOf(super.getName(options), options)
  }
}
class HttpsAgent extends https.Agent {
  override getName(options: object = {}): string {
    return nameOf(super.getName(options), options)
  }
}

/** Sends requests with the client of Node.js: it connects to the given addresses, follows no redirect, and retries nothing. */
export function sendByHttp(): { send: Send; close: () => void } {
  const options = { keepAlive: true, timeout: IDLE_MS }
  const drained = new DrainedAnswers()
  const agents = { 'http:': new HttpAgent(options), 'https:': new HttpsAgent(options) }
  return {
    send: async (outgoing, addresses, signal) => {
      const isSecure = outgoing.url.protocol === 'https:'
      const request = (isSecure ? https : http).request(outgoing.url, {
        method: outgoing.method,
        headers: { ...outgoing.headers, 'content-length': String(outgoing.body?.byteLength ?? 0) },
        agent: agents[isSecure ? 'https:' : 'http:'],
        lookup: pinned(addresses),
        signal,
        ...{ pinned: addresses.map(({ address }) => address).join() },
      })
      const response = await answered(request, outgoing.body)
      return arriving(response, drained)
    },
    close: () => {
      for (const agent of Object.values(agents)) agent.destroy()
    },
  }
}

/** Answers with the addresses that were allowed, and asks nobody. */
function pinned(addresses: readonly Address[]): LookupFunction {
  return (_, { all }, callback) => {
    if (all === true) callback(null, [...addresses])
    else callback(null, addresses[0]!.address, addresses[0]!.family)
  }
}

function answered(request: ClientRequest, body: Uint8Array | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    // The listener stays: an error may follow the answer.
    request.on('error', reject)
    request.on('response', resolve)
    request.end(body)
  })
}

function arriving(response: IncomingMessage, drained: DrainedAnswers): ArrivingAnswer {
  const { statusCode: status = 0, headers } = response
  const retryAfter = headers['retry-after']
  if (!isAccepted(status)) return { status, retryAfter, text: () => beginningOf(response) }
  drained.drain(response)
  return { status, retryAfter, text: () => Promise.resolve('') }
}

async function beginningOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  const timer = setTimeout(() => response.destroy(), BODY_MS)
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      bytes += chunk.byteLength
      if (bytes >= BODY_BYTES) break
    }
  } catch {
    // The status is known: a text that broke off adds nothing.
  }
  clearTimeout(timer)
  return Buffer.concat(chunks).subarray(0, BODY_BYTES).toString()
}
