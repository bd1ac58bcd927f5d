import type { Telemetry } from '@txbox/core'
import type { Relay } from '@txbox/relay'

/**
 * Counts what the events of a relay report.
 *
 * @param isPublisherUp returns `undefined` as long as that is not known.
 */
export function observeRelay(
  telemetry: Telemetry,
  relay: Relay,
  isPublisherUp: () => boolean | undefined,
): void {
  const count = (outcome: 'accepted' | 'rejected' | 'dead_lettered', messages: number): void =>
    telemetry.count('txbox.relay.messages', messages, { outcome })
  // A counter that begins at its first message would hide this message from rates.
  for (const outcome of ['accepted', 'rejected', 'dead_lettered'] as const) count(outcome, 0)
  for (const reason of ['expired', 'taken', 'stopped'] as const) {
    telemetry.count('txbox.relay.leases.lost', 0, { reason })
  }

  const shards = new Set<number>()
  let outageSince: number | undefined
  relay.on('lease-acquired', ({ shard }) => shards.add(shard))
  relay.on('lease-lost', ({ shard, reason }) => {
    shards.delete(shard)
    telemetry.count('txbox.relay.leases.lost', 1, { reason })
  })
  relay.on('unavailable', () => void (outageSince ??= performance.now()))
  relay.on('published', ({ count: messages }) => {
    count('accepted', messages)
    if (outageSince === undefined) return
    telemetry.record('txbox.relay.outage.duration', (performance.now() - outageSince) / 1000, {})
    outageSince = undefined
  })
  relay.on('parked', () => count('rejected', 1))
  relay.on('dead-lettered', () => count('dead_lettered', 1))

  telemetry.observe('txbox.relay.shards', async () => [{ value: shards.size, attributes: {} }])
  telemetry.observe('txbox.relay.publisher.up', async () => {
    const isUp = isPublisherUp()
    return isUp === undefined ? [] : [{ value: isUp ? 1 : 0, attributes: {} }]
  })
}
