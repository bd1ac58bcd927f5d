import type { Finding, OldestDue } from '@txbox/core/ports'
import { readableDuration } from '@txbox/core/internal'

const ADVICE: Readonly<Record<OldestDue['in'], string>> = {
  backlog:
    "Start a relay, or check the relay's log: the broker may be unavailable, or the relay may be too slow.",
  parked:
    "'npx txbox dead-letters list --parked' shows the error of the message, or of the message before it with the same key. " +
    "Check whether a relay is running, and whether the message's destination accepts messages.",
  scheduled:
    "Start a relay, or check the relay's log: the time for which the message was scheduled has come.",
  queue:
    'Nobody receives from the queue, its receivers are too slow, or the handler fails again and again. If handlers may take ' +
    'longer than this, pass a larger --oldest-due.',
  local:
    "Nobody runs the consumer, it is too slow, or the handler fails again and again: 'npx txbox consumers list' shows which " +
    "consumers run, and 'npx txbox dead-letters list --parked --consumer <name>' shows the errors.",
}

/** The message that has been due the longest, in words: where it is, and for how long. */
export function oldestDueText({ in: part, id, topic, consumer, ageMs }: OldestDue): string {
  const place =
    part === 'queue'
      ? `in queue '${topic}'`
      : part === 'local'
        ? `for consumer '${consumer}'`
        : `for topic '${topic}', ${PLACES[part]}`
  return `message ${id} ${place}, due for ${readableDuration(ageMs)}`
}

const PLACES = { backlog: 'in the backlog', parked: 'parked', scheduled: 'scheduled' } as const

export function oldestDueFinding(oldest: OldestDue | undefined, minutes: number): Finding {
  const check = 'oldest due'
  if (oldest === undefined) return { check, verdict: 'ok', found: 'no message is due' }
  const found = oldestDueText(oldest)
  if (oldest.ageMs <= minutes * 60_000) return { check, verdict: 'ok', found }
  return { check, verdict: 'problem', found, advice: ADVICE[oldest.in] }
}
