import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import {
  createIdempotency,
  type HttpRequest,
  type HttpResponse,
  type Idempotency,
  type IdempotencyOptions,
  type Work,
} from '@txbox/idempotency-key'
import type { Root, Target } from '../engines/target.ts'
import type { Gate } from '../worlds/broker.ts'

/** A handler of requests with a name of its own, so that tests do not see each other's keys and effects. */
export class IdempotencyUnderTest {
  readonly name: string
  readonly idempotency: Idempotency<TransactionHandle>
  /** The errors that were reported. */
  readonly errors: unknown[] = []
  /** The number of calls of `create`, rolled back transactions included. */
  calls = 0
  readonly #target: Target

  constructor(target: Target, root: Pick<Root, 'database'>, options: IdempotencyOptions = {}) {
    this.#target = target
    this.name = options.name ?? `http-${randomUUID()}`
    this.idempotency = createIdempotency({ ...options, database: root.database, name: this.name })
    onTestFinished(this.idempotency.on('error', ({ error }) => void this.errors.push(error)))
  }

  /** A handler that writes one effect. */
  readonly create: Work<TransactionHandle> = async (tx) => {
    this.calls += 1
    await this.#target.effect(tx, this.name)
    return {
      status: 201,
      headers: { 'content-type': 'application/json', location: `/orders/${this.calls}` },
      body: JSON.stringify({ order: this.calls }),
    }
  }

  handle(
    request: Partial<HttpRequest> = {},
    work: Work<TransactionHandle> = this.create,
  ): Promise<HttpResponse> {
    return this.idempotency.handle(post(request), work)
  }

  /** A request whose handler waits at the gate before its effect. */
  handleThrough(gate: Gate): Promise<HttpResponse> {
    return this.handle({}, async (tx, about) => {
      await gate.pass()
      return this.create(tx, about)
    })
  }

  /** Committed effects. */
  effects(): Promise<number> {
    return this.#target.effects(this.name)
  }
}

/** A request with the key `k1`. */
export function post(request: Partial<HttpRequest> = {}): HttpRequest {
  return {
    method: 'POST',
    path: '/orders',
    headers: { 'content-type': 'application/json', 'idempotency-key': 'k1' },
    body: Buffer.from('{"sku":"A1","n":2}'),
    ...request,
  }
}

export function withKey(key: string | readonly string[]): Pick<HttpRequest, 'headers'> {
  return { headers: { 'content-type': 'application/json', 'idempotency-key': key } }
}

export function textOf({ body }: HttpResponse): string {
  return body === undefined ? '' : Buffer.from(body as Uint8Array).toString()
}

/** The header of a response that says that it is a replay. */
export function isReplayed({ headers }: HttpResponse): boolean {
  return headers?.['idempotent-replayed'] === 'true'
}
