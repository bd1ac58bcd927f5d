import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import {
  createIdempotency,
  type HttpRequest,
  type HttpResponse,
  type Idempotency,
  type IdempotencyOptions,
  type LeasedWork,
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

  /** The idempotency keys with which another system was called, by handlers without a transaction. */
  readonly calledWith: (string | undefined)[] = []

  /** A handler that calls another system. */
  readonly charge: LeasedWork = ({ idempotencyKey }) => {
    this.calledWith.push(idempotencyKey)
    return {
      status: 201,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ charge: this.calledWith.length }),
    }
  }

  handleLeased(
    request: Partial<HttpRequest> = {},
    work: LeasedWork = this.charge,
    options?: { leaseMs: number },
  ): Promise<HttpResponse> {
    return this.idempotency.handleLeased(post(request), work, options)
  }

  /** A request whose handler waits at the gate before it calls the other system. */
  handleLeasedThrough(gate: Gate, options?: { leaseMs: number }): Promise<HttpResponse> {
    const work: LeasedWork = async (about) => {
      await gate.pass()
      return this.charge(about)
    }
    return this.handleLeased({}, work, options)
  }

  /** Lets all leases and the responses that were stored under them pass. */
  async expireLeases(): Promise<void> {
    const past =
      this.#target.engine === 'postgres'
        ? "clock_timestamp() - interval '1 second'"
        : 'utc_timestamp(6) - interval 1 second'
    const table = this.#target.outboxTable.replace(/outbox$/, 'dedup_leases')
    await this.#target.sql(`update ${table} set expires_at = ${past}`)
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
