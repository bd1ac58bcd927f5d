/** What an error says, in one line and without the full stop: also one of several addresses, whose own message is empty. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(reasonOf).join('; ')
  const text = error instanceof Error ? error.message || error.name : String(error)
  // The client does not say what the broker had to say here.
  if (text.startsWith('Expected ConnectionOpenOk; got <ConnectionClose')) {
    return 'it did not open the vhost, because there is none of that name or the user may not use it'
  }
  // What the broker says itself is enough: `Channel closed by server: 404 (NOT-FOUND) with message "NOT_FOUND - …"`.
  const said = /with message "(.*)"/s.exec(text)?.[1] ?? text
  return said.replaceAll(/\s+/g, ' ').replace(/[.\s]+$/, '')
}

/** The reply code of AMQP, when the broker gave one. */
export function replyCodeOf(error: unknown): number | undefined {
  const code: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  return typeof code === 'number' ? code : undefined
}
