import { diagnose, diagnosed, reasonOf, type EventListeners } from '@txbox/core/internal'
import type { ConsumerEvents, MessageEvent } from './consumer.ts'

/** Publishes the events of a consumer on diagnostic channels. */
export function diagnoseEvents(events: EventListeners<ConsumerEvents>, consumer: string): void {
  const about = ({ source, message, deliveries }: MessageEvent) => ({
    ...diagnosed(message),
    consumer,
    source,
    deliveries,
  })
  events.tap((event, value) => {
    if (event === 'handled') {
      const handled = value as ConsumerEvents['handled']
      diagnose('handled', () => {
        const { outcome, durationMs } = handled
        return { ...about(handled), outcome, durationMs }
      })
    } else if (event === 'retried') {
      const retried = value as ConsumerEvents['retried']
      diagnose('retried', () => {
        const { delayMs, local, error } = retried
        return { ...about(retried), delayMs, local, reason: reasonOf(error) }
      })
    } else if (event === 'dead-lettered') {
      const dead = value as ConsumerEvents['dead-lettered']
      diagnose('dead-lettered', () => ({ ...about(dead), reason: reasonOf(dead.error) }))
    } else if (event === 'unavailable') {
      const { source, error, retryInMs } = value as ConsumerEvents['unavailable']
      diagnose('unavailable', () => ({ consumer, source, retryInMs, reason: reasonOf(error) }))
    }
  })
}
