import type { BlockingKey, Finding, StatusFigures } from '@txbox/core'
import { readableDuration, readableNumber } from '@txbox/core/internal'
import { counted } from './terminal.ts'

/** A message is usually published within a second. */
const OLD_BACKLOG_MS = 60_000
const STUCK_LEASE_MS = 60_000
const MUCH_GARBAGE = 100_000

/** What the figures say of relays, keys and collectors, on any database. */
export function trafficFindings(
  figures: StatusFigures,
  blocking: readonly BlockingKey[],
): readonly Finding[] {
  return [relays(figures), leases(figures), keys(blocking), deadLetters(figures), collection(figures)]
}

function relays({ backlog, oldestMs = 0, leases: all }: StatusFigures): Finding {
  const working = all.some(({ name, remainingMs }) => name.startsWith('outbox/') && remainingMs > 0)
  const age = readableDuration(oldestMs)
  if (working && oldestMs <= OLD_BACKLOG_MS)
    return { check: 'relay', verdict: 'ok', found: 'at work, and in time' }
  if (working) {
    return {
      check: 'relay',
      verdict: 'warning',
      found: `at work, but the oldest message of ${counted(backlog, 'message')} has waited for ${age}`,
      advice: "Look at the relay's log: the broker may be away, or the relay may be too slow. Start another.",
    }
  }
  if (backlog.count === 0)
    return { check: 'relay', verdict: 'note', found: 'none at work, and nothing to publish' }
  return {
    check: 'relay',
    verdict: 'problem',
    found: `none at work; ${waiting(backlog)}, the oldest for ${age}`,
    advice: "Start one: 'npx txbox relay --publisher …', or createRelay in your service.",
  }
}

function leases({ leases: all }: StatusFigures): Finding {
  const stuck = all.filter(({ remainingMs }) => remainingMs < -STUCK_LEASE_MS)
  if (stuck.length === 0) return { check: 'leases', verdict: 'ok', found: 'none has run out unnoticed' }
  const owners = [...new Set(stuck.map(({ owner }) => owner))].join(', ')
  return {
    check: 'leases',
    verdict: 'warning',
    found: `${counted({ count: stuck.length }, 'lease')} ran out and nobody took over; held last by ${owners}`,
    advice: 'The relay that held these shards has died, and none is left to replace it. Start one.',
  }
}

function keys(blocking: readonly BlockingKey[]): Finding {
  if (blocking.length === 0) return { check: 'keys', verdict: 'ok', found: 'none is blocked' }
  const worst = blocking
    .slice(0, 3)
    .map(
      ({ key, id, waiting, attempts }) =>
        `'${key}' by message ${id} (attempt ${readableNumber(attempts)}, ${readableNumber(waiting)} behind it)`,
    )
  return {
    check: 'keys',
    verdict: 'warning',
    found: `blocked: ${worst.join('; ')}${blocking.length > 3 ? ` and ${readableNumber(blocking.length - 3)} more` : ''}`,
    advice: "Each goes on when its message is accepted or dead. 'npx txbox status' shows the errors.",
  }
}

function deadLetters({ dead }: StatusFigures): Finding {
  if (dead.count === 0) return { check: 'dead letters', verdict: 'ok', found: 'none' }
  return {
    check: 'dead letters',
    verdict: 'warning',
    found: counted(dead, 'dead letter'),
    advice: "Look at them by 'npx txbox dead-letters list', then redrive or discard them.",
  }
}

function collection({ expired, lastCollection }: StatusFigures): Finding {
  const check = 'garbage'
  const found = `${counted(expired, 'expired claim')}, ${lastCollection === undefined ? 'never collected' : 'collected before'}`
  if (expired.count < MUCH_GARBAGE) return { check, verdict: 'ok', found }
  return {
    check,
    verdict: 'warning',
    found,
    advice:
      "Nothing removes them, or not fast enough: run 'npx txbox gc' from cron, or createGarbageCollector.",
  }
}

function waiting(backlog: StatusFigures['backlog']): string {
  return `${counted(backlog, 'message')} ${backlog.count === 1 ? 'waits' : 'wait'}`
}
