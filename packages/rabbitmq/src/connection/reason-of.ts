import { propertyOf, reasonOf as causesOf } from '@txbox/core/internal'

/**
 * The message of a client error, with its causes, in one line and without the period. The text is not shortened: an
 * error that quotes it keeps the client error as its `cause`, and `reasonOf` leaves out causes that are already quoted.
 */
export function reasonOf(error: unknown): string {
  const text = causesOf(error)
  // The client does not pass the broker's reason on here.
  if (text.startsWith('Expected ConnectionOpenOk; got <ConnectionClose')) {
    return `it did not open the vhost, because there is none of that name, the user may not use it, or it has reached a limit (${text})`
  }
  return text.replace(/[.\s]+$/, '')
}

/**
 * Returns only the broker's own text, such as `NOT_FOUND - …` for the error
 * `Channel closed by server: 404 (NOT-FOUND) with message "NOT_FOUND - …"`.
 */
export function brokersReasonOf(error: unknown): string {
  const text = reasonOf(error)
  return (/with message "(.*)"/s.exec(text)?.[1] ?? text).replace(/[.\s]+$/, '')
}

/** Undefined if the broker sent no reply code. */
export function replyCodeOf(error: unknown): number | undefined {
  const code = propertyOf(error, 'code')
  return typeof code === 'number' ? code : undefined
}
