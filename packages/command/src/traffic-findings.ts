import type {
  BlockingKey,
  BoundedCount,
  Finding,
  Lag,
  LocalConsumerFigures,
  QueueFigures,
  StatusFigures,
  StuckKey,
} from '@txbox/core/ports'
import { readableDuration, readableNumber } from '@txbox/core/internal'
import { counted } from './terminal.ts'

/** The age from which the backlog is a finding. A message is usually published within a second. */
const OLD_BACKLOG_MS = 60_000
/** The age from which visible messages of a queue are a finding. A message is usually received within a second. */
const OLD_DUE_MS = 600_000
const STUCK_LEASE_MS = 60_000
/** The number of expired claims from which the garbage collector is considered too slow. */
const EXPIRED_CLAIMS = 100_000

interface Traffic {
  readonly figures: StatusFigures
  readonly lag: Lag
  /** Some of the blocked keys, those with the most waiting messages first. */
  readonly blocking: readonly BlockingKey[]
  readonly blocked: BoundedCount
  readonly all: readonly QueueFigures[]
  readonly stuck: { readonly keys: readonly StuckKey[]; readonly examined: BoundedCount }
  readonly consumers: readonly LocalConsumerFigures[]
}

export function trafficFindings({
  figures,
  lag,
  blocking,
  blocked,
  all,
  stuck,
  consumers,
}: Traffic): readonly Finding[] {
  return [
    relays(figures, lag),
    leases(figures),
    keys(blocking, blocked),
    deadLetters(figures, all, consumers),
    collection(figures),
    queues(all),
    queueKeys(stuck),
  ]
}

function relays(
  { leases: all, scheduled }: StatusFigures,
  { backlog, oldestMs = 0, parked, oldestDue }: Lag,
): Finding {
  const working = all.some(({ name, remainingMs }) => name.startsWith('outbox/') && remainingMs > 0)
  const age = readableDuration(oldestMs)
  if (working && oldestMs <= OLD_BACKLOG_MS)
    return { check: 'relay', verdict: 'ok', found: 'a relay is running without delay' }
  if (working) {
    return {
      check: 'relay',
      verdict: 'warning',
      found: `a relay is running, but the oldest of ${counted(backlog, 'message')} has waited for ${age}`,
      advice:
        "Check the relay's log: the broker may be unavailable, or the relay may be too slow. In that case start another relay.",
    }
  }
  if (oldestDue === undefined) {
    const later = scheduled.count === 0 ? '' : `; ${counted(scheduled, 'message')} scheduled for later`
    return {
      check: 'relay',
      verdict: 'note',
      found: `no relay is running, and there is nothing to publish now${later}`,
    }
  }
  const due = readableDuration(oldestDue.ageMs)
  const held = `${counted(parked, 'message')} ${parked.count === 1 ? 'is' : 'are'} parked and due`
  const what = [
    ...(backlog.count > 0 ? [`${waiting(backlog)}, the oldest for ${age}`] : []),
    ...(parked.count > 0 ? [held + (oldestDue.in === 'backlog' ? '' : `, the oldest for ${due}`)] : []),
  ]
  return {
    check: 'relay',
    verdict: 'problem',
    found: `no relay is running; ${what.join('; ')}`,
    advice: "Start a relay: 'npx txbox relay --publisher …', or createRelay in your service.",
  }
}

function leases({ leases: all }: StatusFigures): Finding {
  const stuck = all.filter(({ remainingMs }) => remainingMs < -STUCK_LEASE_MS)
  if (stuck.length === 0)
    return { check: 'leases', verdict: 'ok', found: 'no lease has expired without a new owner' }
  const owners = [...new Set(stuck.map(({ owner }) => owner))].join(', ')
  return {
    check: 'leases',
    verdict: 'warning',
    found: `${counted({ count: stuck.length }, 'lease')} expired without a new owner; the last owner was ${owners}`,
    advice:
      'The relay or the local consumer that held these shards has died, and no other process has replaced it. Start one.',
  }
}

function keys(blocking: readonly BlockingKey[], blocked: BoundedCount): Finding {
  if (blocking.length === 0) return { check: 'keys', verdict: 'ok', found: 'no key is blocked' }
  const worst = blocking.map(
    ({ key, id, waiting, attempts }) =>
      `'${key}' by message ${id} (attempt ${readableNumber(attempts)}, ${readableNumber(waiting)} waiting behind it)`,
  )
  const rest = blocked.count - blocking.length
  const more = rest > 0 ? ` and ${blocked.atLeast ? 'at least ' : ''}${readableNumber(rest)} more` : ''
  return {
    check: 'keys',
    verdict: 'warning',
    found: `blocked: ${worst.join('; ')}${more}`,
    advice:
      "Each key continues when its message is accepted or becomes a dead letter. 'npx txbox status' shows the errors.",
  }
}

function deadLetters(
  { dead }: StatusFigures,
  all: readonly QueueFigures[],
  consumers: readonly LocalConsumerFigures[],
): Finding {
  const ofQueues = all.filter((queue) => queue.dead.count > 0)
  const ofConsumers = consumers.filter((consumer) => consumer.dead.count > 0)
  if (dead.count + ofQueues.length + ofConsumers.length === 0)
    return { check: 'dead letters', verdict: 'ok', found: 'none' }
  const places = [
    ...(dead.count > 0 ? [`${counted(dead, 'dead letter')} of the outbox`] : []),
    ...ofQueues.slice(0, 3).map((queue) => `${counted(queue.dead, 'dead letter')} of queue '${queue.name}'`),
    ...(ofQueues.length > 3 ? [`those of ${readableNumber(ofQueues.length - 3)} more queues`] : []),
    ...ofConsumers
      .slice(0, 3)
      .map(({ name, dead: own }) => `${counted(own, 'dead letter')} of consumer '${name}'`),
    ...(ofConsumers.length > 3 ? [`those of ${readableNumber(ofConsumers.length - 3)} more consumers`] : []),
  ]
  return {
    check: 'dead letters',
    verdict: 'warning',
    found: places.join('; '),
    advice:
      "List them with 'npx txbox dead-letters list', for a queue with '--queue <name>', and then redrive or discard them.",
  }
}

function collection({ expired, lastCollection }: StatusFigures): Finding {
  const check = 'garbage'
  const found = `${counted(expired, 'expired claim')}, ${lastCollection === undefined ? 'never collected' : 'collected before'}`
  if (expired.count < EXPIRED_CLAIMS) return { check, verdict: 'ok', found }
  return {
    check,
    verdict: 'warning',
    found,
    advice:
      "No collector runs, or it is too slow: run 'npx txbox gc' from cron, or use createGarbageCollector.",
  }
}

function queues(all: readonly QueueFigures[]): Finding {
  const check = 'queues'
  const old = all.filter(({ oldestMs = 0 }) => oldestMs > OLD_DUE_MS)
  if (old.length === 0) return { check, verdict: 'ok', found: 'no message has been due for long' }
  const worst = old
    .slice(0, 3)
    .map(
      ({ name, due, oldestMs }) =>
        `'${name}' (${counted(due, 'message')}, the oldest due for ${readableDuration(oldestMs!)})`,
    )
  const more = old.length > 3 ? ` and ${readableNumber(old.length - 3)} more` : ''
  return {
    check,
    verdict: 'warning',
    found: `messages wait to be received: ${worst.join('; ')}${more}`,
    advice: 'Nobody receives from the queue, or its receivers are too slow: start more receivers.',
  }
}

/** A key is stuck if none of its messages is visible now or later: no receiver will ever examine it. */
function queueKeys({ keys: stuck, examined }: Traffic['stuck']): Finding {
  const check = 'queue keys'
  const more = examined.atLeast ? `, among the first ${readableNumber(examined.count)}` : ''
  if (stuck.length === 0) return { check, verdict: 'ok', found: `no key is stuck${more}` }
  const worst = stuck
    .slice(0, 3)
    .map(
      ({ queue, key, id, waiting: behind }) =>
        `'${key}' of queue '${queue}' (${counted(behind, 'message')}, the first is ${id})`,
    )
  return {
    check,
    verdict: 'problem',
    found: `stuck: ${worst.join('; ')}${stuck.length > 3 ? ' and others' : ''}`,
    advice:
      'No receiver will find these messages. Send a message with this key: the receive that finds it releases the key. ' +
      'Then report this as a bug of txbox.',
  }
}

function waiting(backlog: StatusFigures['backlog']): string {
  return `${counted(backlog, 'message')} ${backlog.count === 1 ? 'waits' : 'wait'}`
}
