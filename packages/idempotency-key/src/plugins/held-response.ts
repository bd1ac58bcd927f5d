import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { isDeepStrictEqual } from 'node:util'
import { ByteCollector } from './byte-collector.ts'
import type { HttpResponse } from '../response/http-response.ts'

const HELD = ['write', 'end', 'writeHead', 'flushHeaders'] as const
/** The methods of the response that have no effect once the handler has taken too long. */
const SILENCED = [...HELD, 'setHeader', 'setHeaders', 'appendHeader', 'removeHeader'] as const

type Method = (...args: unknown[]) => unknown

/** What a handler has written up to the end of its response. */
interface Written {
  readonly status: number
  readonly headers: OutgoingHttpHeaders
  readonly body: Uint8Array
}

/**
 * A response of Node that keeps what is written to it, until it is decided what is sent. What was put around the response before,
 * such as a compression, gets only what is sent. What is written after the end is dropped.
 */
export class HeldResponse {
  readonly #response: ServerResponse
  readonly #own: readonly (readonly [string, PropertyDescriptor | undefined])[]
  readonly #before: Pick<Written, 'status' | 'headers'>
  #body = new ByteCollector(Infinity)
  #ended = Promise.withResolvers<HttpResponse>()
  #written: Written | undefined
  /** What listens for the end of the sending, and was there before the handler. */
  readonly #listeners: ReadonlySet<unknown>

  constructor(response: ServerResponse) {
    this.#response = response
    this.#listeners = new Set(response.rawListeners('finish'))
    this.#before = { status: response.statusCode, headers: { ...response.getHeaders() } }
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

  /**
   * Forgets what was written, and begins to keep up to one byte more than `maxBytes`.
   *
   * @returns a promise that resolves when the response has ended.
   */
  begin(maxBytes: number): Promise<HttpResponse> {
    this.#restore(this.#before)
    this.#written = undefined
    this.#body = new ByteCollector(maxBytes)
    this.#ended = Promise.withResolvers<HttpResponse>()
    return this.#ended.promise
  }

  /** Stops holding, and drops a response that has ended: what is written from now on is sent. */
  giveUp(): void {
    if (this.#written !== undefined) this.#restore(this.#before)
    this.#release()
  }

  /** Sends what the handler has written up to the end of its response, or another response. */
  send(instead: HttpResponse | undefined): void {
    const response = this.#response
    this.#release()
    if (instead === undefined) {
      if (this.#written !== undefined) this.#restore(this.#written)
      response.end(this.#written?.body)
      return
    }
    this.#restore({ status: instead.status, headers: this.#before.headers })
    for (const [name, value] of Object.entries(instead.headers ?? {})) response.setHeader(name, value)
    response.end(instead.body)
    const silence = (): void =>
      this.#override(Object.fromEntries(SILENCED.map((name) => [name, () => response])))
    // A compression middleware may send the headers later.
    if (response.headersSent) silence()
    else response.once('close', silence)
  }

  #release(): void {
    for (const [name, descriptor] of this.#own) {
      if (descriptor === undefined) Reflect.deleteProperty(this.#response, name)
      else Object.defineProperty(this.#response, name, descriptor)
    }
  }

  #override(methods: Readonly<Record<string, Method>>): void {
    for (const [name, value] of Object.entries(methods)) {
      Object.defineProperty(this.#response, name, { value, configurable: true, writable: true })
    }
  }

  #restore({ status, headers }: Pick<Written, 'status' | 'headers'>): void {
    this.#response.statusCode = status
    // Names of headers keep their capitals.
    if (isDeepStrictEqual({ ...this.#response.getHeaders() }, headers)) return
    for (const name of this.#response.getHeaderNames()) this.#response.removeHeader(name)
    this.#setHeaders(headers)
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
    if (this.#written === undefined) {
      if (typeof chunk === 'string') {
        const of = typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8'
        this.#body.add(Buffer.from(chunk, of))
      } else if (chunk instanceof Uint8Array) {
        this.#body.add(chunk)
      }
    }
    const callback = [chunk, encoding, done].find((value) => typeof value === 'function')
    if (callback !== undefined) queueMicrotask(callback as () => void)
  }

  #end(): void {
    if (this.#written !== undefined) return
    const { statusCode: status } = this.#response
    this.#written = { status, headers: { ...this.#response.getHeaders() }, body: this.#body.bytes }
    this.#ended.resolve(this.#written as HttpResponse)
    process.nextTick(() => this.#finish())
  }

  /** A handler that waits until its response is sent, as `pipeline` does, would wait for a COMMIT that waits for the handler. */
  #finish(): void {
    for (const listener of this.#response.rawListeners('finish')) {
      if (this.#listeners.has(listener)) continue
      this.#response.off('finish', listener as () => void)
      listener.call(this.#response)
    }
  }
}
