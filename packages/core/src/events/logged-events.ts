import { EventListeners } from './event-listeners.ts'
import type { Logger, LogLevel } from './logger.ts'
import { visible } from '../text/one-line.ts'
import { readableNumber } from '../text/readable-number.ts'
import { RepeatedTrouble } from './repeated-trouble.ts'

export interface LogLine {
  readonly level: LogLevel
  /** Plain values only: the error object of a library may hold a payload or a password. */
  readonly object: object
  /** The text of the line, in whole sentences. */
  readonly text: string
  /** The kind of trouble that may repeat: lines of one kind are written at intervals, with a count. */
  readonly kind?: string
  /** The event is a failure: without a logger and a listener, it becomes a process warning. */
  readonly failure?: boolean
}

/** A line that is written later than this after its event shows the time of the event. */
const LATE_MS = 1000

/** Functions that make the log line of an event, by event name; `undefined` logs nothing. */
export type LogLines<Events> = { readonly [E in keyof Events]?: (event: Events[E]) => LogLine | undefined }

/** Sends events to a logger; without a logger, emits a process warning for a failure that has no listener. */
export interface LoggedEvents<Events extends { error: { error: unknown } }> {
  readonly events: EventListeners<Events>
  /**
   * Writes a log line that belongs to no event. An error that the logger throws is ignored. Without a logger, a failure becomes
   * a process warning each time; `false` suppresses the warning.
   */
  readonly write: (line: LogLine) => void
  /** Reports that trouble of this kind has ended. */
  readonly over: (kind: string) => void
  /** Writes the counts of repeated lines that have not been written yet. */
  readonly end: () => void
  /** Writes that the work has started, unless it runs already. */
  readonly started: (text: string, about?: object) => void
  /** Writes the counts of repeated lines, and, if the work runs, that it has stopped. */
  readonly stopped: (text: string, about?: object) => void
}

/**
 * Creates the listeners for the events of a feature. With a logger, `lines` defines what is logged. Without a logger,
 * the first failure of each event that has no listener becomes a process warning with the code `TXBOX_UNHEARD_…`;
 * `false` suppresses the warning too.
 */
export function loggedEvents<Events extends { error: { error: unknown } }>(
  logger: Logger | false | undefined,
  lines: LogLines<Events>,
  { repeatAfterMs = 60_000 }: { readonly repeatAfterMs?: number } = {},
): LoggedEvents<Events> {
  const trouble = new RepeatedTrouble(repeatAfterMs)
  const log = ({ level, object, text }: LogLine): void => {
    if (logger === undefined || logger === false) return
    try {
      const written: unknown = logger[level]?.(withVisibleTexts(object), text)
      // A method that is asynchronous against its type must not end the process by a rejection.
      if (written !== undefined) Promise.resolve(written).catch(() => undefined)
    } catch {
      // The logger itself failed, so the error cannot be reported.
    }
  }
  const write = (line: LogLine): void => {
    if (line.kind !== undefined) {
      trouble.report(line.kind, (times, { firstAt, lastAt }) => log(counted(line, times, firstAt, lastAt)))
      return
    }
    if (line.failure === true && logger === undefined) {
      const advice = "Pass the option 'logger', such as consoleLogger(), to get such lines in a log."
      process.emitWarning(`${line.text} ${advice}`, { type: 'TxboxWarning', code: 'TXBOX_UNHEARD_WARNING' })
    }
    // Debug lines may be as frequent as messages, and would bring every count forward.
    if (line.level !== 'debug') trouble.flush()
    log(line)
  }
  const events = new EventListeners<Events>(logger === undefined ? warnOnce(lines) : undefined)
  if (logger !== undefined && logger !== false) {
    for (const event of Object.keys(lines) as (keyof Events)[]) {
      events.on(event, (value) => {
        const line = lines[event]?.(value)
        if (line !== undefined) write(line)
      })
    }
  }
  let runs = false
  const ran = (now: boolean, event: string, text: string, about?: object): void => {
    if (runs !== now) log({ level: 'info', object: { event, ...about }, text })
    runs = now
  }
  return {
    events,
    write,
    over: (kind) => trouble.over(kind),
    end: () => trouble.end(),
    started: (text, about) => ran(true, 'started', text, about),
    stopped(text, about) {
      trouble.end()
      ran(false, 'stopped', text, about)
    },
  }
}

/** Ids, keys and topics come from outside: a logger that writes texts as they are must not obey them. */
function withVisibleTexts(object: object): object {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, withVisible(value)]))
}

function withVisible(value: unknown): unknown {
  if (typeof value === 'string') return visible(value)
  if (Array.isArray(value)) return value.map(withVisible)
  const isPlain =
    typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  return isPlain ? withVisibleTexts(value) : value
}

/** Shows when the events of a line happened, if the line stands for several events, or comes late. */
function counted(line: LogLine, times: number, firstAt: Date, lastAt: Date): LogLine {
  if (times === 1) {
    if (Date.now() - lastAt.getTime() < LATE_MS) return line
    return { ...line, object: { ...line.object, lastAt }, text: `${line.text} (at ${lastAt.toISOString()})` }
  }
  const period = `from ${firstAt.toISOString()} to ${lastAt.toISOString()}`
  const text = `${line.text} (${readableNumber(times)} times, ${period})`
  return { ...line, object: { ...line.object, times, firstAt, lastAt }, text }
}

function warnOnce<Events>(
  lines: LogLines<Events>,
): <E extends keyof Events>(event: E, value: Events[E]) => void {
  const warned = new Set<keyof Events>()
  return (event, value) => {
    if (warned.has(event)) return
    const line = lines[event]?.(value)
    if (line?.failure !== true) return
    warned.add(event)
    const code = `TXBOX_UNHEARD_${String(event).toUpperCase().replaceAll('-', '_')}`
    const advice = `The event '${String(event)}' has no listener: add one, or pass the option 'logger', such as consoleLogger().`
    process.emitWarning(`${line.text} ${advice}`, { type: 'TxboxWarning', code })
  }
}
