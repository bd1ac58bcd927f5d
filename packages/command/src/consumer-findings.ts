import type { Finding, LocalConsumerFigures } from '@txbox/core/ports'
import { readableDuration, readableNumber } from '@txbox/core/internal'
import { counted } from './terminal.ts'

/** The number of consumers that a finding names. */
const NAMED = 3

/** The findings about local consumers; none if there are no local consumers. */
export function consumerFindings(consumers: readonly LocalConsumerFigures[]): readonly Finding[] {
  return consumers.length === 0 ? [] : [notRunning(consumers), withoutHandler(consumers)]
}

/** A consumer that nobody runs goes on getting messages. */
function notRunning(consumers: readonly LocalConsumerFigures[]): Finding {
  const check = 'consumers'
  const stopped = consumers.filter(({ runsNow }) => !runsNow)
  const due = stopped.filter(({ oldestDue }) => oldestDue !== undefined)
  const advice =
    "Start the service that runs it. If nobody needs the consumer any more, 'npx txbox consumers remove <name>' ends its " +
    'subscriptions.'
  if (due.length > 0) {
    const found = named(
      due.map(
        ({ name, waiting, oldestDue }) =>
          `'${name}' (${counted(waiting, 'message')} waiting, the oldest due for ${readableDuration(oldestDue!.ageMs)})`,
      ),
    )
    return { check, verdict: 'problem', found: `nobody runs consumer ${found}`, advice }
  }
  // Dead letters alone do not need a process.
  const subscribed = stopped.filter(
    ({ types, parked, scheduled }) => types.length + parked.count + scheduled.count > 0,
  )
  if (subscribed.length === 0) {
    const running = consumers.length - stopped.length
    return { check, verdict: 'ok', found: `${counted({ count: running }, 'local consumer')} running` }
  }
  const found = named(subscribed.map(({ name }) => `'${name}'`))
  return {
    check,
    verdict: 'warning',
    found: `nobody runs consumer ${found}; no message is due there`,
    advice,
  }
}

function withoutHandler(consumers: readonly LocalConsumerFigures[]): Finding {
  const check = 'handlers'
  const lacking = consumers.filter(({ unhandled }) => unhandled.length > 0)
  if (lacking.length === 0) return { check, verdict: 'ok', found: 'every parked type has a handler' }
  const found = named(
    lacking.map(
      ({ name, unhandled }) =>
        `no handler for type ${unhandled.map((type) => `'${type}'`).join(', ')} at consumer '${name}'`,
    ),
  )
  return {
    check,
    verdict: 'warning',
    found,
    advice:
      'These messages, and those behind them with the same keys, wait until the consumer has a handler for the type. Deploy the version ' +
      "that has one, or end the subscription with 'npx txbox consumers remove <name> <type> --discard'.",
  }
}

function named(texts: readonly string[]): string {
  const more = texts.length - NAMED
  return texts.slice(0, NAMED).join('; ') + (more > 0 ? ` and ${readableNumber(more)} more` : '')
}
