import type { BacklogMessage, OutboxMessage, PublishResult, Publisher } from '@txbox/core'

/** What is known of a batch when its publishing has ended, for whatever reason. */
export interface BatchResult {
  readonly accepted: readonly BacklogMessage[]
  readonly rejected: readonly { readonly message: BacklogMessage; readonly result: Rejection }[]
  /** The publisher threw, or answered nonsense: nothing is known of the rest. */
  readonly failure: { readonly error: unknown } | undefined
}

export type Rejection = Extract<PublishResult, { status: 'rejected' }>

/**
 * Publishes a batch so that the messages of one key go one after the other, unless the publisher keeps their order by
 * itself. After a rejection the rest of its key is left for later.
 *
 * @param mayGoOn asked before each call: is the shard still ours, and are we not stopping by force?
 */
export async function publishInOrder(
  publisher: Publisher,
  batch: readonly BacklogMessage[],
  toMessage: (stored: BacklogMessage) => OutboxMessage,
  mayGoOn: () => boolean,
  signal: AbortSignal,
): Promise<BatchResult> {
  const accepted: BacklogMessage[] = []
  const rejected: { message: BacklogMessage; result: Rejection }[] = []
  const blocked = new Set<string>()
  const calls = publisher.ordering === 'per-key' ? [batch] : oneOfEachKeyAtATime(batch)
  for (const call of calls) {
    const messages = call.filter((message) => message.key === undefined || !blocked.has(message.key))
    if (messages.length === 0) continue
    if (!mayGoOn()) break
    try {
      const results = await publisher.publish(messages.map(toMessage), { signal })
      checkResults(results, messages)
      for (const [index, result] of results.entries()) {
        const message = messages[index]!
        if (result.status === 'accepted') accepted.push(message)
        if (result.status === 'rejected') {
          rejected.push({ message, result })
          if (message.key !== undefined) blocked.add(message.key)
        }
      }
    } catch (error) {
      return { accepted, rejected, failure: { error } }
    }
  }
  return { accepted, rejected, failure: undefined }
}

/** The first message of each key, then the second of each, and so on; what has no key goes with the first. */
function oneOfEachKeyAtATime(batch: readonly BacklogMessage[]): readonly (readonly BacklogMessage[])[] {
  const seen = new Map<string, number>()
  const calls: BacklogMessage[][] = []
  for (const message of batch) {
    const place = message.key === undefined ? 0 : (seen.get(message.key) ?? 0)
    if (message.key !== undefined) seen.set(message.key, place + 1)
    const call = calls[place]
    if (call === undefined) calls[place] = [message]
    else call.push(message)
  }
  return calls
}

/** Nothing that a publisher answers may lose a message: an answer that cannot be read counts as none. */
function checkResults(results: readonly PublishResult[], messages: readonly BacklogMessage[]): void {
  if (!Array.isArray(results) || results.length !== messages.length) {
    throw new TypeError(
      `The publisher must answer with one result for each of ${messages.length} messages, but answered with ` +
        `${Array.isArray(results) ? `${results.length}` : typeof results}.`,
    )
  }
  const rejected = new Set<string>()
  for (const [index, result] of (results as readonly (PublishResult | null | undefined)[]).entries()) {
    const { id, key } = messages[index]!
    if (result?.status === 'accepted') continue
    if (result?.status === 'rejected') {
      if (key !== undefined) rejected.add(key)
    } else if (result?.status !== 'skipped' || key === undefined || !rejected.has(key)) {
      throw new TypeError(
        `The publisher's result for message ${id} must be 'accepted', 'rejected', or 'skipped' after a rejection of the ` +
          `same key, not ${JSON.stringify(result?.status)}.`,
      )
    }
  }
}
