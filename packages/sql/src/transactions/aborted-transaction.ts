import { propertyOf, reasonOf } from '@txbox/core/internal'

const REASON_CHARACTERS = 300

/** PostgreSQL: the statement failed because an earlier one had aborted the transaction, so this error names no reason. */
export function isOfAborted(error: unknown): boolean {
  return propertyOf(error, 'code') === '25P02'
}

/** Names the SQL error that a handler swallowed, for the end of an error's text; empty if the error was not seen. */
export function swallowedText(error: unknown): string {
  return error === undefined ? '' : ` This error was swallowed: ${reasonOf(error, REASON_CHARACTERS)}`
}
