import type { DedupResult, DedupStore, InboxMessage } from '@txbox/core'
import { inboxKey } from '@txbox/core/internal'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { isUnavailable } from '../errors/failure-kind.ts'
import { Heartbeats, type Heartbeat } from '../receive/heartbeats.ts'

/** How long a mark excludes other deliveries of the message, unless the mark is extended. */
const LEASE_MS = 30_000

interface Mark {
  readonly store: DedupStore
  readonly token: string
}

/** The answer of the dedup stores about a message. */
type DedupFindings =
  | { readonly status: 'new'; readonly marks: DedupMarks }
  | Exclude<DedupResult, { readonly status: 'won' }>

/** The marks of one delivery that is being handled. */
export class DedupMarks {
  readonly report: (error: unknown) => void
  readonly #marks: readonly Mark[]
  readonly #retentionMs: number | undefined
  readonly #heartbeat: Heartbeat

  constructor(
    marks: readonly Mark[],
    how: { retentionMs: number | undefined; heartbeats: Heartbeats; report: (error: unknown) => void },
  ) {
    this.report = how.report
    this.#marks = marks
    this.#retentionMs = how.retentionMs
    this.#heartbeat = how.heartbeats.start(this)
  }

  async extend(): Promise<void> {
    await Promise.all(this.#marks.map(({ store, token }) => store.extend(token, LEASE_MS)))
  }

  /**
   * Marks the message as handled. The error of a store is only reported, because the effect exists and the delivery must be
   * accepted.
   */
  complete(): Promise<void> {
    return this.#end(({ store, token }) => store.complete(token, { retentionMs: this.#retentionMs }))
  }

  /** Removes the marks of a message that was not handled, so that another delivery may handle it. */
  release(): Promise<void> {
    return this.#end(({ store, token }) => store.release(token))
  }

  async #end(how: (mark: Mark) => Promise<unknown>): Promise<void> {
    this.#heartbeat.stop()
    // A store may also throw before it returns a promise.
    const end = async (mark: Mark): Promise<unknown> => how(mark)
    await Promise.all(this.#marks.map((mark) => end(mark).catch(this.report)))
  }
}

/** Asks the dedup stores one after another: the first store that knows a message decides. */
export class DedupChain {
  readonly #heartbeats = new Heartbeats(LEASE_MS)
  readonly #settings: ConsumerSettings

  constructor(settings: ConsumerSettings) {
    this.#settings = settings
  }

  /**
   * @param report is called with the error of a store that the chain skips because an inbox recognizes duplicates.
   * @throws {DedupStoreUnavailableError} when any other store cannot be reached. The marks of earlier stores are released.
   */
  async begin(message: InboxMessage, report: (error: unknown) => void): Promise<DedupFindings> {
    const { dedup, retentionMs, name, keyOf } = this.#settings
    const marks: Mark[] = []
    const how = { retentionMs, heartbeats: this.#heartbeats, report }
    const release = (): Promise<void> => new DedupMarks(marks, how).release()
    const key = inboxKey(keyOf(message), name).stored
    for (const store of dedup) {
      try {
        const result = await store.begin({ consumer: name, key, leaseMs: LEASE_MS })
        if (result.status === 'won') marks.push({ store, token: result.token })
        else {
          await release()
          return result
        }
      } catch (error) {
        if (store.onUnavailable === 'process' && isUnavailable(error, false)) {
          report(error)
          continue
        }
        await release()
        throw error
      }
    }
    return { status: 'new', marks: new DedupMarks(marks, how) }
  }
}
