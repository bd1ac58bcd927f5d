import type { Sleeper } from '../ports/wake-ups.ts'
import { hours } from '../time/durations.ts'
import { OptionChecker } from '../options/options.ts'
import type { PollPace } from './poll-pace.ts'

/** The shortest and the longest wait between two polls, in milliseconds. */
export interface PollInterval {
  readonly min: number
  readonly max: number
}

/** A poll finds what a lost notification was about, and everything where nothing notifies. */
export interface PollIntervals {
  /** While a connection listens on which transactions have notified. */
  readonly listening: PollInterval
  readonly polling: PollInterval
}

const MIN_MS = 20
const MAX_MS = { listening: 500, polling: 100 } as const

/**
 * Checks the option `pollIntervalMs`, whose `min` and `max` hold whether transactions notify or not.
 *
 * @throws {InvalidOptionError} for an unknown or wrong part of the option.
 */
export function pollIntervalsOption(where: string, option: unknown): PollIntervals {
  const check = new OptionChecker(`${where}: pollIntervalMs`, option ?? {}).known('min', 'max')
  const min = check.milliseconds('min', { min: 1, max: hours(1), default: MIN_MS })
  const upTo = (longest: number): PollInterval => ({
    min,
    max: check.milliseconds('max', { min, max: hours(1), default: Math.max(min, longest) }),
  })
  return { listening: upTo(MAX_MS.listening), polling: upTo(MAX_MS.polling) }
}

/**
 * Polls at once when there is news. Polls are rarer only after a transaction has notified, and while the connection listens: where
 * no transaction notifies, a connection that listens is of no use.
 */
export class PacedSleeper implements Sleeper {
  readonly #pace: PollPace
  readonly #report: (error: unknown) => void
  #intervals: PollIntervals
  #isNotified = false

  constructor(pace: PollPace, intervals: PollIntervals, report: (error: unknown) => void) {
    this.#pace = pace
    this.#intervals = intervals
    this.#report = report
    this.#setPace()
  }

  /** Changes the shortest and the longest waits. */
  between(intervals: PollIntervals): void {
    this.#intervals = intervals
    this.#setPace()
  }

  readonly woken = (isNotified = false): void => {
    if (isNotified && !this.#isNotified) {
      this.#isNotified = true
      this.#setPace()
    }
    this.#pace.news()
  }

  readonly failed = (error: unknown): void => {
    this.stoppedListening()
    this.#report(error)
  }

  stoppedListening(): void {
    if (!this.#isNotified) return
    this.#isNotified = false
    this.#setPace()
    // The wait in progress may be a long one.
    this.#pace.wake()
  }

  #setPace(): void {
    this.#pace.between(this.#isNotified ? this.#intervals.listening : this.#intervals.polling)
  }
}
