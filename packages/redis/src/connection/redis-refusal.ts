import { oneLine, propertyOf, reasonOf } from '@txbox/core/internal'

const TEXT_CHARACTERS = 300

/** The first word of an error that Redis answers, such as `WRONGTYPE`. Clients give no code for it. */
const WORD = /^-?([A-Z][A-Z0-9_]{1,40})(?:\s|$)/

/** An error that Redis has answered to one command. The connection still works. */
export class RedisRefusal extends Error {
  /** The first word of the answer, such as `OOM`; `ERR` for most mistakes. */
  readonly word: string

  constructor(word: string, text: string) {
    super(text)
    this.name = 'RedisRefusal'
    this.word = word
  }
}

/**
 * Returns the error of a client as an answer of Redis; `undefined` if it is none. The client's own error has the arguments of the
 * command, a payload among them, so it is not passed on.
 */
export function refusalIn(error: unknown): RedisRefusal | undefined {
  const message = propertyOf(error, 'message')
  const word = typeof message === 'string' ? WORD.exec(message)?.[1] : undefined
  // Errors of Node.js have codes, such as ECONNRESET.
  if (word === undefined || propertyOf(error, 'code') !== undefined) return undefined
  return new RedisRefusal(word, oneLine(message as string, TEXT_CHARACTERS).replace(/[.\s]+$/, ''))
}

/** Why a connection does not work, in one line without a period. */
export function reasonIn(error: unknown): string {
  const aggregated = propertyOf(error, 'errors')
  const [first] = Array.isArray(aggregated) ? (aggregated as unknown[]) : []
  const text = reasonOf(
    propertyOf(error, 'message') === '' && first !== undefined ? first : error,
    TEXT_CHARACTERS,
  )
  return text.replace(/[.\s]+$/, '')
}
