import { expect } from 'vitest'
import { isTxboxError, type TxboxErrorCode } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'
import { SECRET, Tripwire } from './hostile-values.ts'

/** The longest message of an error, whatever came in. */
export const MESSAGE_CHARACTERS = 2048

/** Characters that move the cursor of a terminal, or reorder what stands around them. */
export const UNSEEN = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u

/** What came of a call: its result, or what it threw. */
export type Outcome<R> = { readonly result: R } | { readonly thrown: unknown }

/** Calls, and says what came of it. */
export function outcomeOf<R>(call: () => R): Outcome<R> {
  try {
    return { result: call() }
  } catch (thrown) {
    return { thrown }
  }
}

/** The same for a call that answers with a promise. */
export async function outcomeOfAsync<R>(call: () => Promise<R> | R): Promise<Outcome<R>> {
  try {
    return { result: await call() }
  } catch (thrown) {
    return { thrown }
  }
}

/** What was thrown is one of these errors of txbox, fit to be shown; or it is what the caller's own value threw. */
export function expectRefusal(thrown: unknown, ...codes: readonly TxboxErrorCode[]): void {
  if (thrown instanceof Tripwire || isRevoked(thrown)) return
  if (!isTxboxError(thrown)) throw new Error(`Not an error of txbox: ${stackOf(thrown)}`, { cause: thrown })
  if (codes.length > 0) expect(codes).toContain(thrown.code)
  expectPresentable(thrown.message)
  const reason = reasonOf(thrown)
  expectPresentable(reason)
}

/** Text for a person: bounded, in one line, without control characters, and without what a payload holds. */
export function expectPresentable(text: string): void {
  const shown = text.slice(0, 3000)
  if (text.length > MESSAGE_CHARACTERS)
    throw new Error(`A text of ${text.length} characters: ${JSON.stringify(shown)}`)
  if (UNSEEN.test(text)) throw new Error(`Control characters: ${JSON.stringify(shown)}`)
  if (!text.isWellFormed()) throw new Error(`A lone surrogate: ${JSON.stringify(shown)}`)
  if (text.includes(SECRET)) throw new Error(`The secret shows: ${JSON.stringify(shown)}`)
}

/** The engine's own error about a proxy that its maker has revoked: nobody can look at such a value. */
function isRevoked(thrown: unknown): boolean {
  return thrown instanceof TypeError && thrown.message.includes('proxy that has been revoked')
}

function stackOf(thrown: unknown): string {
  return thrown instanceof Error ? String(thrown.stack) : typeof thrown
}
