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

/** By the transaction that the handler got: a publish through any other transaction is not part of the handler's work. */
const causes = new WeakMap<object, Cause>()

/** Runs a handler whose publishes take over the ids of its message. */
export async function causing<R>(tx: unknown, cause: Cause, handler: () => Promise<R> | R): Promise<R> {
  if (typeof tx !== 'object' || tx === null) return handler()
  causes.set(tx, cause)
  try {
    return await handler()
  } finally {
    causes.delete(tx)
  }
}

export function causeOf(tx: object): Cause | undefined {
  return causes.get(tx)
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
