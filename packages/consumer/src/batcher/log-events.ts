import { readableDuration, readableNumber, reasonOf, type LogLines } from '@txbox/core/internal'
import type { BatcherEvents } from './batcher.ts'

/** The log lines of a batcher, which never show an item. */
export const BATCHER_LOG_LINES: LogLines<BatcherEvents<unknown>> = {
  flushed(flushed) {
    const text = `The batcher has processed ${items(flushed.size)} in ${readableDuration(flushed.durationMs)}.`
    return { level: 'debug', object: { event: 'flushed', ...flushed }, text }
  },
  error({ error, channel, batch }) {
    const reason = reasonOf(error)
    const what =
      batch === undefined
        ? 'A listener of a batcher has thrown'
        : `A batch of ${items(batch.length)} has failed and is not processed again`
    return {
      level: 'error',
      object: { event: 'error', error: reason, channel, size: batch?.length },
      text: `${what}: ${/[.!?…]$/.test(reason) ? reason : `${reason}.`}`,
      kind: 'error',
      failure: true,
    }
  },
}

function items(count: number): string {
  return count === 1 ? '1 item' : `${readableNumber(count)} items`
}
