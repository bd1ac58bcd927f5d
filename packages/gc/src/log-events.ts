import type { Logger } from '@txbox/core'
import {
  loggedEvents,
  readableDuration,
  readableNumber,
  reasonOf,
  type EventListeners,
  type LogLines,
} from '@txbox/core/internal'
import type { GarbageCollectorEvents } from './garbage-collector.ts'

export interface CollectorLog {
  readonly events: EventListeners<GarbageCollectorEvents>
  started(): void
  stopped(): void
}

export function collectorLog(logger: Logger | false | undefined): CollectorLog {
  const logged = loggedEvents<GarbageCollectorEvents>(logger, lines)
  return {
    events: logged.events,
    started: () => logged.started('The garbage collector has started.'),
    stopped: () => logged.stopped('The garbage collector has stopped.'),
  }
}

const lines: LogLines<GarbageCollectorEvents> = {
  collected(collected) {
    const { inbox, deadLetters, durationMs } = collected
    const rows = `${readableNumber(inbox)} claims and ${readableNumber(deadLetters)} dead letters`
    const text = `The garbage collector has removed ${rows} in ${readableDuration(durationMs)}.`
    return { level: 'debug', object: { event: 'collected', ...collected }, text }
  },
  slow({ durationMs }) {
    const text = `A batch of the garbage collector has taken ${readableDuration(durationMs)} and has not ended: a statement waits, for example for a lock or for space on the server's disk.`
    return { level: 'warn', object: { event: 'slow', durationMs }, text, kind: 'slow' }
  },
  error({ error }) {
    const reason = reasonOf(error)
    const text = `The garbage collector had an error and continues: ${/[.!?…]$/.test(reason) ? reason : `${reason}.`}`
    return { level: 'error', object: { event: 'error', error: reason }, text, kind: 'error', failure: true }
  },
}
