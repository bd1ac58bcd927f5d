import type { Logger } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { EventListeners, oneLine, reasonOf, within } from '@txbox/core/internal'
import type { BoxParts } from './box-parts.ts'
import type { TxboxHealth, TxboxTrouble } from './txbox.ts'

/** How long a part is not ok after an error, and after the next attempt that it has announced. Lasting trouble is reported again. */
const ERROR_MS = 15_000
const GRACE_MS = 5000
/** A database that takes longer than this to answer is away. */
const ANSWER_MS = 5000
/** More consumers than a process has. */
const MOST_CONSUMERS = 10_000

interface Events {
  trouble: TxboxTrouble
  error: { error: unknown }
}

/** What a part of a box has reported last. */
interface Report {
  readonly reason: string
  /** On the monotonic clock; `Infinity`: until the part reports a success. */
  readonly until: number
}

/** Hears the troubles of the parts of a box, and knows which of them work. */
export class BoxHealth {
  readonly events: EventListeners<Events>
  readonly #parts: BoxParts
  readonly #ports: ConnectedPorts
  readonly #reports = new Map<string, Report>()

  constructor(parts: BoxParts, ports: ConnectedPorts, logger: Logger | false | undefined) {
    this.#parts = parts
    this.#ports = ports
    // With a logger, the parts log their troubles themselves.
    this.events = new EventListeners<Events>(logger === undefined ? warning() : undefined)
    for (const [name, part] of Object.entries({ ...parts.consumers, ...parts.sources })) {
      part.on('unavailable', ({ error, retryInMs }) => this.#trouble(name, error, retryInMs + GRACE_MS))
      part.on('error', ({ error }) => this.#trouble(name, error, ERROR_MS))
      part.on('handled', () => this.#works(name))
    }
    const { relay, gc } = parts
    relay?.on('unavailable', ({ error, retryInMs }) => this.#trouble('relay', error, retryInMs + GRACE_MS))
    relay?.on('error', ({ error }) => this.#trouble('relay', error, ERROR_MS))
    relay?.on('published', () => this.#works('relay'))
    relay?.stopped.catch((error: unknown) => this.#report('relay', error, Infinity))
    // A series of failures is reported once.
    gc?.on('error', ({ error }) => this.#trouble('gc', error, Infinity))
    gc?.on('collected', () => this.#works('gc'))
  }

  /** @param idle why no part runs; `undefined`: they run. */
  async check(idle: string | undefined): Promise<TxboxHealth> {
    const oldestDueMs = await within(this.#oldestDueMs(), ANSWER_MS, () => silent()).catch(
      (error: unknown) => error,
    )
    const reasonOfAll = idle ?? (typeof oldestDueMs === 'number' ? undefined : reasonOf(oldestDueMs))
    const parts = Object.fromEntries(
      this.#parts.groups.flat().map(({ name }) => {
        const reason = reasonOfAll ?? this.#reasonOf(name)
        return [name, reason === undefined ? { ok: true } : { ok: false, reason }]
      }),
    )
    return {
      ok: reasonOfAll === undefined && Object.values(parts).every(({ ok }) => ok),
      parts,
      oldestDueMs: typeof oldestDueMs === 'number' ? oldestDueMs : Number.NaN,
    }
  }

  #reasonOf(part: string): string | undefined {
    const report = this.#reports.get(part)
    return report !== undefined && report.until > performance.now() ? report.reason : undefined
  }

  #trouble(part: string, error: unknown, lastsMs: number): void {
    this.#report(part, error, performance.now() + lastsMs)
    this.events.emit('trouble', { part, error })
  }

  #report(part: string, error: unknown, until: number): void {
    this.#reports.set(part, { reason: reasonOf(error), until })
  }

  #works(part: string): void {
    this.#reports.delete(part)
  }

  async #oldestDueMs(): Promise<number> {
    const inspection = this.#ports.inspection()
    const names = Object.keys(this.#parts.consumers)
    const [local, lag] = await Promise.all([
      names.length === 0 ? [] : inspection.localConsumers(MOST_CONSUMERS),
      this.#parts.relay === undefined ? undefined : inspection.lag(),
      names.length === 0 && this.#parts.relay === undefined ? inspection.answers(ANSWER_MS) : undefined,
    ])
    const ages = local
      .filter(({ name }) => names.includes(name))
      .map(({ oldestDue }) => oldestDue?.ageMs ?? 0)
    return Math.max(0, lag?.oldestDue?.ageMs ?? 0, ...ages)
  }
}

/** Without a logger and a listener, the first trouble of each part becomes a process warning. */
function warning(): <E extends keyof Events>(event: E, value: Events[E]) => void {
  const warned = new Set<string>()
  return (_, value) => {
    const part = 'part' in value ? value.part : 'listener'
    if (warned.has(part)) return
    warned.add(part)
    process.emitWarning(
      `The part '${oneLine(part)}' of a box has trouble: ${reasonOf(value.error)} The event 'trouble' has no listener: add one, or pass ` +
        "the option 'logger', such as consoleLogger().",
      { type: 'TxboxWarning', code: 'TXBOX_UNHEARD_TROUBLE' },
    )
  }
}

function silent(): never {
  throw new Error(`The database has not answered within ${ANSWER_MS} ms.`)
}
