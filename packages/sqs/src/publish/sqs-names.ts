import { hash } from 'node:crypto'

/** The texts that SQS takes as the name of a message group, and as a deduplication id. */
const NAME = /^[!-~]{1,128}$/

/** Returns the text as a name that SQS takes: the text itself, or else its SHA-256 in hexadecimal. */
export function sqsNameOf(text: string): string {
  // A lone surrogate becomes U+FFFD in UTF-8, so that two texts would have one hash.
  return NAME.test(text) ? text : hash('sha256', text.isWellFormed() ? text : JSON.stringify(text), 'hex')
}
