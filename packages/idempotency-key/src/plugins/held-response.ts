import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Bridge } from './bridge.ts'
import { ByteCollector } from './byte-collector.ts'
import type { HttpResponse } from '../response/http-response.ts'

const HELD = ['write', 'end', 'writeHead', 'flushHeaders'] as const
/** The methods of the response that have no effect once the handler has taken too long. */
const SILENCED = [...HELD, 'setHeader', 'setHeaders', 'appendHeader', 'removeHeader'] as const

type Method = (...args: unknown[]) => unknown

/**
 * A response of Node that keeps what is written to it, until it is decided what is sent. What was put around the response before,
 * such as a compression, gets only what is sent.
 */
export class HeldResponse {
  readonly #response: ServerResponse
  readonly #maxBytes: number
  readonly #own: readonly (readonly [string, PropertyDescriptor | undefined])[]
  readonly #headers: OutgoingHttpHeaders
  #body: ByteCollector
  #ended = Promise.withResolvers<HttpResponse>()

  constructor(response: ServerResponse, maxBytes: number) {
    this.#response = response
    this.#maxBytes = maxBytes
    this.#headers = response.getHeaders()
    this.#body = new ByteCollector(maxBytes)
    this.#own = HELD.map((name) => [name, Object.getOwnPropertyDescriptor(response, name)])
    this.#override({
      write: (chunk, encoding, done) => {
        this.#add(chunk, encoding, done)
        return true
      },
      end: (chunk, encoding, done) => {
        this.#add(chunk, encoding, done)
        this.#end()
        return response
      },
      writeHead: (status, ...rest) => {
        response.statusCode = status as number
        this.#setHeaders(rest.at(-1))
        return response
      },
      flushHeaders: () => undefined,
    })
  }

  /** Resolves when the handler has ended the response. */
  get ended(): Promise<HttpResponse> {
    return this.#ended.promise
  }

  /** Forgets what was written, before the handler is called again. */
  reset(): void {
    this.#body = new ByteCollector(this.#maxBytes)
    this.#ended = Promise.withResolvers<HttpResponse>()
    this.#resetHeaders()
  }

  /** Stops holding: what is written from now on is sent. */
  release(): void {
    for (const [name, descriptor] of this.#own) {
      if (descriptor === undefined) Reflect.deleteProperty(this.#response, name)
      else Object.defineProperty(this.#response, name, descriptor)
    }
  }

  /** Sends what the handler has written, or another response. */
  send(instead: HttpResponse | undefined): void {
    const response = this.#response
    this.release()
    if (instead === undefined) {
      response.end(this.#body.bytes)
      return
    }
    this.#resetHeaders()
    response.statusCode = instead.status
    for (const [name, value] of Object.entries(instead.headers ?? {})) response.setHeader(name, value)
    response.end(instead.body)
    const silence = (): void =>
      this.#override(Object.fromEntries(SILENCED.map((name) => [name, () => response])))
    // A compression middleware may send the headers later.
    if (response.headersSent) silence()
    else response.once('close', silence)
  }

  #override(methods: Readonly<Record<string, Method>>): void {
    for (const [name, value] of Object.entries(methods)) {
      Object.defineProperty(this.#response, name, { value, configurable: true, writable: true })
    }
  }

  #resetHeaders(): void {
    for (const name of this.#response.getHeaderNames()) this.#response.removeHeader(name)
    this.#setHeaders(this.#headers)
    this.#response.statusCode = 200
  }

  #setHeaders(headers: unknown): void {
    if (Array.isArray(headers)) {
      for (let n = 0; n < headers.length; n += 2)
        this.#response.setHeader(String(headers[n]), headers[n + 1] as string)
    } else if (typeof headers === 'object' && headers !== null) {
      for (const [name, value] of Object.entries(headers as Record<string, OutgoingHttpHeader | undefined>)) {
        if (value !== undefined) this.#response.setHeader(name, value)
      }
    }
  }

  #add(chunk: unknown, encoding: unknown, done: unknown): void {
    if (typeof chunk === 'string') {
      this.#body.add(Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8'))
    } else if (chunk instanceof Uint8Array) {
      this.#body.add(chunk)
    }
    const callback = [chunk, encoding, done].find((value) => typeof value === 'function')
    if (callback !== undefined) queueMicrotask(callback as () => void)
  }

  #end(): void {
    const { statusCode: status } = this.#response
    const headers = this.#response.getHeaders() as Record<string, string>
    this.#ended.resolve({ status, headers, body: this.#body.bytes })
  }
}

/** Holds the response of a framework that calls the handler, until the bridge has its answer. */
export function holdResponse(response: ServerResponse, bridge: Bridge, maxBytes: number): void {
  const isStored = bridge.handled?.key !== undefined
  const held = new HeldResponse(response, isStored ? maxBytes : Infinity)
  void held.ended.then((written) => bridge.respond(written))
  void bridge.answered.then(async (answer) => {
    // The framework makes a response of an error of the handler.
    if (answer === undefined) await held.ended
    held.send(answer)
  })
}
