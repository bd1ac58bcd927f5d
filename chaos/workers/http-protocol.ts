// The protocol between the client and the HTTP services.
import path from 'node:path'
import type { Illness } from './worker-protocol.ts'

export const HTTP_SERVICES = ['http-service-1', 'http-service-2'] as const
/** The path of the requests whose effect, claim and response commit in one transaction. */
export const ORDERS = '/orders'

/** The path of the requests whose handler runs under a lease, and calls a provider of payments. */
export const PAYMENTS = '/payments'

/** The body of a request, which is the same each time the request is sent. */
export interface Order {
  readonly ill?: Illness
  readonly padding: string
}

/** The socket of a service. */
export function socketOf(folder: string, service: string): string {
  return path.join(folder, `${service}.sock`)
}

export function httpLogOf(folder: string): string {
  return path.join(folder, 'http.jsonl')
}

/** The log of the provider of payments, which no fault hits. */
export function chargeLogOf(folder: string): string {
  return path.join(folder, 'charges.jsonl')
}

/** A line of the log of the provider: a handler under a lease has begun a charge, or has ended it. */
export interface ChargeEntry {
  readonly what: 'began' | 'ended'
  /** The response id, which another call of the handler would not have given. */
  readonly id: string
  readonly key: string
  /** The idempotency key that the provider got. */
  readonly providerKey: string
  readonly worker: string
  /** In ms since 1970, on a clock that never jumps. */
  readonly atMs: number
}

/** A line of the log of the client: a request that it sends until the answer is 2xx, or one of the answers. */
export type HttpLogEntry = SentEntry | AnsweredEntry

export interface SentEntry {
  readonly what: 'sent'
  /** A request may be sent by several calls. */
  readonly call: string
  readonly path: string
  readonly key: string
  readonly ill?: Illness
  /** In ms since 1970, on a clock that never jumps. */
  readonly atMs: number
}

export interface AnsweredEntry {
  readonly what: 'answered'
  readonly call: string
  readonly service: string
  readonly status: number
  /** The response id; absent in problem details. */
  readonly id?: string
  readonly isReplayed: boolean
  readonly atMs: number
}
