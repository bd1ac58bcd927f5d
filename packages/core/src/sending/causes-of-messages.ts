/** What a message that a handler publishes takes over from the message that the handler handles. */
export interface Cause {
  /** The correlation id of the handled message, or its id; `undefined` in a batch whose messages do not share one. */
  readonly correlationId: string | undefined
  /** The id of the handled message; `undefined` in a batch. */
  readonly causationId: string | undefined
  /** Called when the handler has stored a message: after COMMIT, receivers may look for it. */
  readonly stored?: (() => void) | undefined
}

/** The header in which a message names the message that has caused it. */
export const CAUSATION_HEADER = 'txbox-causation-id'

/**
 * By the transaction that the handler got: a publish through any other transaction is not part of the handler's work. The last one
 * is that of the innermost handler.
 */
const causes = new WeakMap<object, Cause[]>()

/**
 * Runs a handler whose publishes take over the ids of its message. Inside another handler with the same transaction, both handlers
 * have stored what the inner one stores, and the cause of the outer one holds again afterwards.
 */
export async function causing<R>(tx: unknown, cause: Cause, handler: () => Promise<R> | R): Promise<R> {
  if (typeof tx !== 'object' || tx === null) return handler()
  const open = causes.get(tx) ?? []
  causes.set(tx, open)
  const outer = open.at(-1)
  const own: Cause = {
    ...cause,
    stored() {
      cause.stored?.()
      outer?.stored?.()
    },
  }
  open.push(own)
  try {
    return await handler()
  } finally {
    // Not the last one, if handlers run side by side.
    open.splice(open.indexOf(own), 1)
  }
}

export function causeOf(tx: object): Cause | undefined {
  return causes.get(tx)?.at(-1)
}

/** Adds the ids of the cause to a message that does not have its own. */
export function withCause<
  M extends {
    readonly correlationId: string | undefined
    readonly headers: Readonly<Record<string, string>>
  },
>(message: M, { correlationId, causationId }: Cause): M {
  const { headers } = message
  const isNamed = causationId === undefined || CAUSATION_HEADER in headers
  return {
    ...message,
    correlationId: message.correlationId ?? correlationId,
    headers: isNamed ? headers : { ...headers, [CAUSATION_HEADER]: causationId },
  }
}
