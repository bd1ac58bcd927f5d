import type { Telemetry } from '@txbox/core'
import type { Relay } from '@txbox/relay'

/**
 * Adds the gauges of a relay, and begins its counters.
 *
 * @param isPublisherUp returns `undefined` as long as that is not known.
 */
export function observeRelay(
  telemetry: Telemetry,
  relay: Relay,
  isPublisherUp: () => boolean | undefined,
): void {
  // `rate()` would not see the first message of a counter that appears with this message.
  for (const outcome of ['accepted', 'rejected', 'dead_lettered', 'uncounted']) {
    telemetry.count('txbox.relay.messages', 0, { outcome })
  }
  for (const reason of ['expired', 'taken', 'stopped']) {
    telemetry.count('txbox.relay.leases.lost', 0, { reason })
  }
  const shards = new Set<number>()
  relay.on('lease-acquired', ({ shard }) => void shards.add(shard))
  relay.on('lease-lost', ({ shard }) => void shards.delete(shard))
  telemetry.observe('txbox.relay.shards', async () => [{ value: shards.size, attributes: {} }])
  telemetry.observe('txbox.relay.publisher.up', async () => {
    const isUp = isPublisherUp()
    return isUp === undefined ? [] : [{ value: isUp ? 1 : 0, attributes: {} }]
  })
}
