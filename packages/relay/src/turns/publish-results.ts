import type { BacklogMessage, PublishResult } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'

/**
 * Checks the results of a call. No result of a publisher may lose a message: an invalid result counts as no result.
 *
 * @throws {TypeError} when the answer is not one result for each message.
 */
export function checkResults(results: readonly PublishResult[], messages: readonly BacklogMessage[]): void {
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
        `The publisher's result for message ${oneLine(id)} must be 'accepted', 'rejected', or ` +
          `'skipped' after a rejection of the same key, not ${oneLine(String(result?.status))}.`,
      )
    }
  }
}
