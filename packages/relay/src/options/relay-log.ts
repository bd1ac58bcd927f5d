import { type Logger } from '@txbox/core'
import {
  loggedEvents,
  oneLine,
  readableDuration,
  readableNumber,
  reasonOf,
  type EventListeners,
  type LogLines,
} from '@txbox/core/internal'
import type { RelayEvents } from './relay.ts'

const OUTAGE = 'unavailable'

export interface RelayLog {
  readonly events: EventListeners<RelayEvents>
  started(): void
  /** Reports the first failure of a connection to listen on that nobody has asked for. */
  notListening(error: unknown): void
  /** Writes the counts of repeated lines, and, unless the relay only drained, that the relay has stopped. */
  stopped(): void
}

/** Turns events into log lines. The lines contain neither payloads nor the properties of foreign error objects. */
export function relayLog(owner: string, logger: Logger | false | undefined): RelayLog {
  let outageSince: number | undefined
  let hasReported = false
  const logged = loggedEvents<RelayEvents>(logger, {
    ...lines,
    unavailable(event) {
      outageSince ??= performance.now()
      return lines.unavailable?.(event)
    },
    published(event) {
      if (outageSince !== undefined) {
        const outageMs = performance.now() - outageSince
        outageSince = undefined
        logged.over(OUTAGE)
        const text = `The relay publishes again, after ${readableDuration(outageMs)}.`
        logged.write({ level: 'info', object: { event: 'available', outageMs }, text })
      }
      return lines.published?.(event)
    },
  })
  return {
    events: logged.events,
    started: () => logged.started(`The relay ${oneLine(owner)} has started.`, { owner }),
    notListening(error) {
      if (hasReported) return
      hasReported = true
      const reason = reasonOf(error)
      const text = `The relay does not listen for new messages, and polls until it can: ${sentence(reason)}`
      logged.write({ level: 'warn', object: { event: 'not-listening', error: reason }, text, failure: true })
    },
    stopped: () => logged.stopped(`The relay ${oneLine(owner)} has stopped.`, { owner }),
  }
}

const lines: LogLines<RelayEvents> = {
  published({ shard, count, durationMs }) {
    const text = `Published ${readableNumber(count)} messages of shard ${shard} in ${readableDuration(durationMs)}.`
    return { level: 'debug', object: { event: 'published', shard, count, durationMs }, text }
  },
  parked({ id, topic, key, attempt, dueAt, error }) {
    const reason = reasonOf(error)
    const text =
      `${nameOfMessage(id, topic)} was refused (attempt ${attempt}) and is tried again at ${dueAt.toISOString()}: ` +
      sentence(reason)
    const object = { event: 'parked', id, topic, key, attempt, dueAt, error: reason }
    return { level: 'warn', object, text, kind: `parked/${topic}`, failure: true }
  },
  'dead-lettered'({ id, topic, key, attempts, error }) {
    const reason = reasonOf(error)
    const tries = attempts === 1 ? '1 attempt' : `${readableNumber(attempts)} attempts`
    const text = `${nameOfMessage(id, topic)} is a dead letter after ${tries}: ${sentence(reason)}`
    const object = { event: 'dead-lettered', id, topic, key, attempts, error: reason }
    return { level: 'error', object, text, kind: `dead-lettered/${topic}`, failure: true }
  },
  unavailable({ error, retryInMs }) {
    const reason = reasonOf(error)
    const text = `The relay cannot publish, and tries again in ${readableDuration(retryInMs)}: ${sentence(reason)}`
    return {
      level: 'warn',
      object: { event: 'unavailable', retryInMs, error: reason },
      text,
      kind: OUTAGE,
      failure: true,
    }
  },
  'lease-acquired'({ shard, term }) {
    const object = { event: 'lease-acquired', shard, term: String(term) }
    return { level: 'debug', object, text: `The relay has taken shard ${shard}.` }
  },
  'lease-lost'({ shard, term, reason }) {
    const object = { event: 'lease-lost', shard, term: String(term), reason }
    if (reason === 'stopped') {
      return { level: 'debug', object, text: `The relay has released shard ${shard}.` }
    }
    const text =
      reason === 'expired'
        ? `The relay has lost shard ${shard}, because it did not renew its lease in time.`
        : `The relay has lost shard ${shard} to another relay.`
    return { level: 'warn', object, text, kind: `lease-lost/${reason}` }
  },
  error({ error }) {
    const reason = reasonOf(error)
    const text = `The relay had an error and continues: ${sentence(reason)}`
    const code = codeOf(error)
    return {
      level: 'error',
      object: { event: 'error', code, error: reason },
      text,
      kind: `error/${code}`,
      failure: true,
    }
  },
}

function nameOfMessage(id: string, topic: string): string {
  return `Message ${oneLine(id)} for topic '${oneLine(topic)}'`
}

/** The kind of an error, so that different errors do not hide each other. */
function codeOf(error: unknown): string {
  const code: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  if (typeof code === 'string' || typeof code === 'number') return oneLine(String(code), 60)
  return error instanceof Error ? oneLine(error.name, 60) : typeof error
}

function sentence(reason: string): string {
  return /[.!?…]$/.test(reason) ? reason : `${reason}.`
}
