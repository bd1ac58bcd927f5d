import type { Publisher } from '@txbox/core'

/** A publisher that calls `cut` five times, each time while one of its calls is in flight, and at times others. */
export function cuttingPublisher(publisher: Publisher, cut: () => void): Publisher {
  let calls = 0
  return {
    ordering: 'per-key',
    publish(messages, options) {
      const results = publisher.publish(messages, options)
      calls += 1
      if (calls % 8 === 0 && calls <= 40) setImmediate(cut)
      return results
    },
  }
}
