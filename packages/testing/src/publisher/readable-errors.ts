import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import type { Publisher } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'
import { failure } from '../cases/failure.ts'

/** A shorter reason says nothing. */
const LEAST_CHARACTERS = 10
/** The number of levels of causes that are shown with an error. */
const LEVELS = 10

/** Asserts that an error says what is wrong, and that what a log shows of it does not contain the password. */
export function isReadable(error: unknown, secret: string | undefined): void {
  assert.ok(reasonOf(error).length > LEAST_CHARACTERS, 'the reason is missing')
  if (secret === undefined) return
  const shown = inspect(error, { depth: LEVELS, maxArrayLength: null, maxStringLength: null })
  assert.ok(!shown.includes(secret), 'the password is shown')
}

/** @returns the error of `check`, which must reject; nothing, if the publisher has no `check`. */
export async function failuresOfCheck(publisher: Publisher): Promise<unknown[]> {
  if (publisher.check === undefined) return []
  return [await failure(publisher.check({ signal: new AbortController().signal }))]
}
