import type { InboxMessage, Logger, Source } from '@txbox/core'
import {
  explanationOf,
  loggedEvents,
  oneLine,
  readableDuration,
  reasonOf,
  type EventListeners,
  type LogLine,
  type LogLines,
} from '@txbox/core/internal'
import { diagnoseEvents } from './consumer-diagnostics.ts'
import type { ConsumerEvents } from './consumer.ts'
import { isPermanent, isRetryLater } from '../errors/failure-kind.ts'

export interface ConsumerLog {
  readonly events: EventListeners<ConsumerEvents>
  started(source: Source): void
  /** Warns once that the source does not count deliveries, so that a message that crashes its process is not recognized. */
  uncounted(source: string): void
  /**
   * @param text about a setting of a server that weakens the guarantee of a dedup store, or that a source needs.
   * @param event the event in the log.
   */
  warned(text: string, event: 'dedup-store' | 'source'): void
  receivesAgain(source: string, outageMs: number): void
  /** Logs the counts of repeated lines, and then that the consumer has stopped. */
  stopped(): void
}

/**
 * Turns events into log lines. Repeated lines are thinned out, except for those about a message that is not handled any more:
 * each such message has a line of its own. The lines contain neither payloads nor the properties of foreign error objects. */
export function consumerLog(name: string, logger: Logger | false | undefined): ConsumerLog {
  const logged = loggedEvents<ConsumerEvents>(logger, LINES)
  diagnoseEvents(logged.events, name)
  const who = `The consumer ${oneLine(name)}`
  let isUncounted = false
  const uncounted = (source: string): void => {
    if (isUncounted) return
    isUncounted = true
    const text = `${who}: ${source} does not count deliveries, so a message that crashes its process is delivered again without limit.`
    logged.write({ level: 'warn', object: { event: 'uncounted', source }, text })
  }
  return {
    events: logged.events,
    uncounted,
    started({ name: source, traits: { countsDeliveries } }) {
      logged.started(`${who} has started on ${source}.`)
      if (countsDeliveries === 'per-delivery') {
        const text = `${who}: whether ${source} counts deliveries is known when it delivers a message again. Otherwise a message that crashes its process is delivered again without limit.`
        logged.write({ level: 'info', object: { event: 'count-unknown', source }, text })
      } else if (!countsDeliveries) uncounted(source)
    },
    warned(text, event) {
      logged.write({ level: 'warn', object: { event }, text: `${who}: ${text}`, failure: event === 'source' })
    },
    receivesAgain(source, outageMs) {
      logged.over('unavailable')
      const text = `${who} receives again from ${source}, after ${readableDuration(outageMs)}.`
      logged.write({ level: 'info', object: { event: 'available', source, outageMs }, text })
    },
    stopped: () => logged.stopped(`${who} has stopped.`),
  }
}

const LINES: LogLines<ConsumerEvents> = {
  handled(event) {
    const { outcome, durationMs } = event
    if (outcome === 'too-old') return tooOld(event)
    const text = `${nameOf(event.message)} is ${outcome}, after ${readableDuration(durationMs)}.`
    return { level: 'debug', object: { ...about('handled', event), outcome, durationMs }, text }
  },
  retried(event) {
    const { error, delayMs, local } = event
    const asked = isRetryLater(error)
    const again = local ? 'is handled again here' : 'is delivered again'
    const text = `${nameOf(event.message)} ${again} in ${readableDuration(delayMs)} (delivery ${event.deliveries}): ${sentence(error)}`
    const object = { ...about('retried', event), delayMs, local, error: reasonOf(error) }
    return asked
      ? { level: 'debug', object, text }
      : { level: 'warn', object, text, kind: `retried/${event.source}`, failure: true }
  },
  'dead-lettered'(event) {
    const error = explanationOf(event.error)
    const text = `${nameOf(event.message)} is a dead letter (delivery ${event.deliveries}): ${error}`
    return { level: 'error', object: { ...about('dead-lettered', event), error }, text, failure: true }
  },
  dropped(event) {
    const error = explanationOf(event.error)
    const text = `${nameOf(event.message)} has failed and was dropped: ${error}`
    return { level: 'error', object: { ...about('dropped', event), error }, text, failure: true }
  },
  unavailable({ source, error, retryInMs }) {
    const next =
      retryInMs === Infinity
        ? 'until it is started again'
        : `and tries again in ${readableDuration(retryInMs)}`
    const text = `The consumer of ${source} cannot work, ${next}: ${sentence(error)}`
    const object = { event: 'unavailable', source, retryInMs, error: reasonOf(error) }
    return { level: 'warn', object, text, kind: 'unavailable', failure: true }
  },
  'order-broken'(event) {
    const text = `${nameOf(event.message)} is returned to ${event.source}; later messages of its key may overtake it.`
    return { level: 'warn', object: about('order-broken', event), text, kind: 'order-broken' }
  },
  lost(event) {
    const text = `${nameOf(event.message)} was taken back by ${event.source} before it was settled: the connection broke, or its lease was not extended in time.`
    return { level: 'warn', object: about('lost', event), text, kind: 'lost' }
  },
  slow(event) {
    const { durationMs } = event
    const text = `${nameOf(event.message)} has been handled for ${readableDuration(durationMs)} and is not finished: the handler, or a statement of its transaction, has not ended.`
    return { level: 'warn', object: { ...about('slow', event), durationMs }, text, kind: 'slow' }
  },
  error({ error, source, message }) {
    const where = message === undefined ? '' : ` with message ${oneLine(message.id)}`
    const text = `The consumer had an error${where} and continues: ${sentence(error)}`
    const object = { event: 'error', source, id: message?.id, error: reasonOf(error) }
    // A message that can be kept nowhere is named, like each dead letter.
    return { level: 'error', object, text, ...(isPermanent(error) ? {} : { kind: 'error' }), failure: true }
  },
}

/** The message had no effect, and is not delivered again: that must be seen, at least once. */
function tooOld(event: ConsumerEvents['handled']): LogLine {
  const { source, message, outcome, durationMs } = event
  const text = `${nameOf(message)} is older than maxAgeMs of its inbox: it was accepted without a call of the handler.`
  const object = { ...about('handled', event), outcome, durationMs }
  return { level: 'warn', object, text, kind: `too-old/${source}`, failure: true }
}

function about(
  event: string,
  { source, message, deliveries }: { source: string; message: InboxMessage; deliveries: number },
): object {
  return { event, source, id: message.id, deliveries }
}

function nameOf(message: InboxMessage): string {
  return `Message ${oneLine(message.id)}`
}

function sentence(error: unknown): string {
  const reason = reasonOf(error)
  return /[.!?…]$/.test(reason) ? reason : `${reason}.`
}
