import { hours } from '@txbox/core'

/** How much of the body of an answer is read, for the text of the error, and for how long. */
export const BODY_BYTES = 4096
export const BODY_MS = 1000

interface AnswerHead {
  readonly status: number
  readonly retryAfter: string | undefined
}

/** The answer of an endpoint. */
export interface Answer extends AnswerHead {
  /** The beginning of the body; empty if the request was accepted. */
  readonly text: string
}

/** An answer whose body may still be in flight. */
export interface ArrivingAnswer extends AnswerHead {
  /** Reads the beginning of the body, for a second at most. Empty if the request was accepted. Never rejects. */
  readonly text: () => Promise<string>
}

export const isAccepted = (status: number): boolean => status >= 200 && status < 300

/** Whether the endpoint, or what stands before it, is not there: such an answer says nothing about the message. */
export const isAway = (status: number): boolean => status === 502 || status === 503 || status === 504

const LONGEST_PAUSE_MS = hours(24)
const RETRIED_4XX: ReadonlySet<number> = new Set([401, 403, 404, 408, 425, 429])

/** Whether another attempt may succeed: not after 410 and those answers that blame the request itself. */
export function isRetryable(status: number): boolean {
  return status < 400 || status >= 500 || RETRIED_4XX.has(status)
}

/** The pause that an endpoint asks for, in milliseconds, up to 24 h: a number of seconds, or a date. */
export function retryAfterMs({ status, retryAfter }: Answer, now = Date.now()): number | undefined {
  const mayAsk = status === 408 || status === 425 || status === 429 || status >= 500
  if (!mayAsk || retryAfter === undefined) return undefined
  const text = retryAfter.trim()
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isNaN(ms) || ms <= 0 ? undefined : Math.min(ms, LONGEST_PAUSE_MS)
}
