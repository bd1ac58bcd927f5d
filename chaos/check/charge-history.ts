import { existsSync, readFileSync } from 'node:fs'
import type { ChargeEntry } from '../workers/http-protocol.ts'
import type { HttpCall, HttpRecord } from './http-history.ts'

/** A call of the provider of payments by a handler under a lease. */
export interface Charge {
  /** The response id. */
  readonly id: string
  readonly key: string
  readonly providerKey: string
  readonly worker: string
  /** In ms since 1970, on a clock that never jumps. */
  readonly beganMs: number
  /** `undefined` for a handler that failed, was killed, or had lost its lease. */
  readonly endedMs: number | undefined
}

/** The outcomes of the requests under a lease, as the client, the provider and the database know them. */
export interface ChargeRecord {
  readonly httpCalls: readonly HttpCall[]
  readonly charges: readonly Charge[]
  /** One for each lease in the last primary: the response id of the stored response, `undefined` without a response. */
  readonly leasedResponses: HttpRecord['httpResponses']
  /** The times of the failovers, in ms since 1970: each may have lost leases and responses. */
  readonly failovers: readonly number[]
}

/** Returns the charges in the order in which they began. The last line of a log that is being written may not be whole. */
export function readCharges(file: string): readonly Charge[] {
  if (!existsSync(file)) return []
  const charges = new Map<string, Charge>()
  const text = readFileSync(file, 'utf8')
  for (const line of text.slice(0, text.lastIndexOf('\n')).split('\n')) {
    if (line === '') continue
    const { what, id, key, providerKey, worker, atMs } = JSON.parse(line) as ChargeEntry
    if (what === 'began') {
      charges.set(id, { id, key, providerKey, worker, beganMs: atMs, endedMs: undefined })
    } else charges.set(id, { ...charges.get(id)!, endedMs: atMs })
  }
  return [...charges.values()].toSorted((a, b) => a.beganMs - b.beganMs)
}
