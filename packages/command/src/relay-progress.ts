import type { InspectionStore, Lag } from '@txbox/core/ports'
import { readableDuration, readableNumber, reasonOf } from '@txbox/core/internal'
import type { Relay } from '@txbox/relay'
import type { stderrLog } from './stderr-log.ts'
import { counted } from './terminal.ts'

/** Logs a line at intervals: the number of messages that were published since the previous line, and the backlog. */
export class RelayProgress {
  readonly #inspection: InspectionStore
  readonly #log: ReturnType<typeof stderrLog>
  readonly #everyMs: number
  #timer: NodeJS.Timeout | undefined
  #counts = none()

  constructor(relay: Relay, inspection: InspectionStore, log: ReturnType<typeof stderrLog>, everyMs: number) {
    this.#inspection = inspection
    this.#log = log
    this.#everyMs = everyMs
    relay.on('published', ({ count }) => void (this.#counts.published += count))
    relay.on('parked', () => void (this.#counts.parked += 1))
    relay.on('dead-lettered', () => void (this.#counts.deadLettered += 1))
  }

  start(): void {
    this.#timer = setTimeout(() => void this.#report(), this.#everyMs).unref()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  async #report(): Promise<void> {
    const counts = this.#counts
    this.#counts = none()
    const { lag, text } = await lagOf(this.#inspection)
    // The progress lines were stopped while the query was in flight.
    if (this.#timer === undefined) return
    const { published, parked, deadLettered } = counts
    const refused = [
      ...(parked === 0 ? [] : [`${readableNumber(parked)} refused`]),
      ...(deadLettered === 0 ? [] : [`${readableNumber(deadLettered)} dead`]),
    ]
    const done = [`${counted({ count: published }, 'message')} published`, ...refused].join(', ')
    this.#log.info(
      {
        ...{ event: 'progress', ...counts, backlog: lag?.backlog, oldestMs: lag?.oldestMs },
        // `parked` is the number of messages that were refused meanwhile.
        ...{ parkedDue: lag?.parked, oldestDue: lag?.oldestDue },
      },
      `${done} in ${readableDuration(this.#everyMs)}; ${text}.`,
    )
    this.start()
  }
}

export async function lagText(inspection: InspectionStore): Promise<string> {
  return (await lagOf(inspection)).text
}

async function lagOf(
  inspection: InspectionStore,
): Promise<{ readonly lag: Lag | undefined; readonly text: string }> {
  try {
    const lag = await inspection.lag()
    return { lag, text: textOf(lag) }
  } catch (error) {
    return { lag: undefined, text: `the number of waiting messages is unknown: ${reasonOf(error)}` }
  }
}

function textOf({ backlog, parked, oldestDue }: Lag): string {
  const isOne = ({ count, atLeast }: Lag['backlog']): boolean => count === 1 && !atLeast
  const parts = [
    ...(backlog.count > 0 ? [`${counted(backlog, 'message')} ${isOne(backlog) ? 'waits' : 'wait'}`] : []),
    ...(parked.count > 0 ? [`${counted(parked, 'message')} ${isOne(parked) ? 'is' : 'are'} parked`] : []),
  ]
  if (parts.length === 0) return 'no message waits'
  const age = oldestDue === undefined ? '' : `, the oldest for ${readableDuration(oldestDue.ageMs)}`
  return parts.join(', ') + age
}

function none(): { published: number; parked: number; deadLettered: number } {
  return { published: 0, parked: 0, deadLettered: 0 }
}
