import { reasonOf } from './reason-of.ts'

/** The limits on the stored texts of a message's errors: the last error, and a shorter form of the last few. */
const ERROR_CHARACTERS = 2000
const HISTORY = { errors: 10, characters: 500 } as const

/** The texts that are stored with a message that was refused: its last error, and its last ten errors as JSON. */
export interface StoredErrors {
  readonly error: string
  readonly errors: string
}

/**
 * Adds an error to the stored errors of a message.
 *
 * @param stored the errors that are stored with the message. If they were written by hand and cannot be read, the list begins
 *   again.
 * @param textOf returns the text of the error. An error of a handler has its class in it, and where it was thrown.
 */
export function withError(
  stored: string | undefined,
  error: unknown,
  attempt: number,
  textOf: (error: unknown, limitCharacters: number) => string = reasonOf,
): StoredErrors {
  const text = textOf(error, ERROR_CHARACTERS)
  const entry = {
    at: new Date().toISOString(),
    attempt,
    error: text.slice(0, HISTORY.characters).toWellFormed(),
  }
  return { error: text, errors: JSON.stringify([...listOf(stored), entry].slice(-HISTORY.errors)) }
}

function listOf(stored: string | undefined): readonly unknown[] {
  try {
    const list: unknown = JSON.parse(stored ?? '[]')
    return Array.isArray(list) ? list : []
  } catch {
    return []
  }
}
