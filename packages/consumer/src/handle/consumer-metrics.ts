import type { Attributes, Telemetry } from '@txbox/core'
import { ATTRIBUTES, errorTypeOf, type EventListeners, type FindTelemetry } from '@txbox/core/internal'
import type { ConsumerEvents } from '../options/consumer.ts'

/** Counts the retries and dead letters of a consumer. */
export function countEvents(
  events: EventListeners<ConsumerEvents>,
  consumer: string,
  telemetry: FindTelemetry,
): void {
  const attributes = { consumer }
  events.tap((event) => {
    if (event === 'retried') telemetry()?.count('txbox.consumer.retries', 1, attributes)
    else if (event === 'dead-lettered') telemetry()?.count('txbox.consumer.dead_letters', 1, attributes)
  })
}

/** Records one call of the handler. `about` is what the metrics of the semantic conventions have. */
export function recordHandled(
  telemetry: Telemetry,
  consumer: string,
  about: Attributes,
  call: { readonly beganAt: number; readonly messages: number; readonly error: unknown },
): void {
  const attributes =
    call.error === undefined ? about : { ...about, [ATTRIBUTES.errorType]: errorTypeOf(call.error) }
  telemetry.record('messaging.process.duration', (performance.now() - call.beganAt) / 1000, attributes)
  telemetry.count('messaging.client.consumed.messages', call.messages, attributes)
  telemetry.count('txbox.consumer.deliveries', call.messages, { consumer })
}
