import { expect } from 'vitest'
import { isTxboxError, type TxboxErrorCode } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'
import { SECRET, Tripwire } from './hostile-values.ts'

/** The maximum length of the message of an error, whatever the input was. */
export const MESSAGE_CHARACTERS = 2048

/** Characters that move the cursor of a terminal, or reorder the text around them. */
export const UNSEEN = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u

/** The outcome of a call: its result, or the error that it threw. */
export type Outcome<R> = { readonly result: R } | { readonly thrown: unknown }

/** Calls the function. @returns the outcome */
export function outcomeOf<R>(call: () => R): Outcome<R> {
  try {
    return { result: call() }
  } catch (thrown) {
    return { thrown }
  }
}

/** Calls the function, which returns a promise. @returns the outcome */
export async function outcomeOfAsync<R>(call: () => Promise<R> | R): Promise<Outcome<R>> {
  try {
    return { result: await call() }
  } catch (thrown) {
    return { thrown }
  }
}

/** Checks that the error is one of these errors of txbox, safe to be shown, or the error of the caller's own value. */
export function expectRefusal(thrown: unknown, ...codes: readonly TxboxErrorCode[]): void {
  if (thrown instanceof Tripwire || isRevoked(thrown)) return
  if (!isTxboxError(thrown)) throw new Error(`Not an error of txbox: ${stackOf(thrown)}`, { cause: thrown })
  if (codes.length > 0) expect(codes).toContain(thrown.code)
  expectPresentable(thrown.message)
  const reason = reasonOf(thrown)
  expectPresentable(reason)
}

/** Checks that a text is bounded, in one line, without control characters, and without content of a payload. */
export function expectPresentable(text: string): void {
  const excerpt = text.slice(0, 3000)
  if (text.length > MESSAGE_CHARACTERS)
    throw new Error(`A text of ${text.length} characters: ${JSON.stringify(excerpt)}`)
  if (UNSEEN.test(text)) throw new Error(`Control characters: ${JSON.stringify(excerpt)}`)
  if (!text.isWellFormed()) throw new Error(`A lone surrogate: ${JSON.stringify(excerpt)}`)
  if (text.includes(SECRET)) throw new Error(`The secret shows: ${JSON.stringify(excerpt)}`)
}

/** The engine's own error about a revoked proxy, whose value nobody can read. */
function isRevoked(thrown: unknown): boolean {
  return thrown instanceof TypeError && thrown.message.includes('proxy that has been revoked')
}

function stackOf(thrown: unknown): string {
  return thrown instanceof Error ? String(thrown.stack) : typeof thrown
}
