import type { InboxMessage } from '@txbox/core'

/** An order of 1000 cents with a discount of 100. */
export const ORDER = { cents: 1000, discount: 100, lines: [{ n: 1 }] }

/** An error by which PostgreSQL, MySQL and MariaDB ask for the transaction to be run again. */
export function conflict(): Error {
  return Object.assign(new Error('deadlock'), { code: '40001', errno: 1213 })
}

/** A handler that changes its message, as one may that does not expect another attempt, and records what it computed. */
export class ChangingHandler {
  /** What each attempt computed, and whether the message was as received. */
  readonly attempts: string[] = []

  /** @returns the number of attempts so far. */
  change(message: Pick<InboxMessage, 'id' | 'headers' | 'payload'>): number {
    const payload = message.payload as { cents: number; discount: number; lines: unknown[] }
    payload.cents -= payload.discount
    payload.lines.push('changed')
    const headers = Object.entries(message.headers ?? {}).map(([name, value]) => `${name}=${value}`)
    this.attempts.push([message.id, payload.cents, payload.lines.length, ...headers].join(' '))
    Object.assign(message, { id: `${message.id}, changed` })
    if (message.headers !== undefined) Object.assign(message.headers, { changed: 'yes' })
    return this.attempts.length
  }
}
