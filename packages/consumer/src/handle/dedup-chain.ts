import type { DedupStore, InboxMessage } from '@txbox/core'
import { inboxKey } from '@txbox/core/internal'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { isUnavailable } from '../errors/failure-kind.ts'
import { Heartbeat } from '../receive/heartbeat.ts'

/** How long a mark excludes other deliveries of the message, unless the mark is extended. */
const LEASE_MS = 30_000

interface Mark {
  readonly store: DedupStore
  readonly token: string
}

/** The answer of the dedup stores about a message. */
export type DedupFindings =
  | { readonly status: 'new'; readonly marks: DedupMarks }
  | { readonly status: 'done' }
  | { readonly status: 'in-flight'; readonly retryAfterMs: number }

/** The marks of one delivery that is being handled. */
export class DedupMarks {
  readonly #marks: readonly Mark[]
  readonly #retentionMs: number | undefined
  readonly #failed: (error: unknown) => void
  readonly #heartbeat: Heartbeat | undefined

  constructor(marks: readonly Mark[], retentionMs: number | undefined, failed: (error: unknown) => void) {
    this.#marks = marks
    this.#retentionMs = retentionMs
    this.#failed = failed
    if (marks.length === 0) return
    const extend = (): Promise<unknown> =>
      Promise.all(marks.map(({ store, token }) => store.extend(token, LEASE_MS)))
    this.#heartbeat = new Heartbeat(LEASE_MS, extend, failed)
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
    if (this.#marks.length === 0) return
    this.#heartbeat?.stop()
    // A store may also throw before it returns a promise.
    const end = async (mark: Mark): Promise<unknown> => how(mark)
    await Promise.all(this.#marks.map((mark) => end(mark).catch(this.#failed)))
  }
}

/** Asks the dedup stores one after another: the first store that knows a message decides. */
export class DedupChain {
  readonly #settings: Pick<ConsumerSettings, 'dedup' | 'retentionMs' | 'name' | 'keyOf'>

  constructor(settings: Pick<ConsumerSettings, 'dedup' | 'retentionMs' | 'name' | 'keyOf'>) {
    this.#settings = settings
  }

  /**
   * @param failed is called with the error of a store that the chain skips because an inbox recognizes duplicates.
   * @throws {DedupStoreUnavailableError} when any other store cannot be reached. The marks of earlier stores are released.
   */
  async begin(message: InboxMessage, failed: (error: unknown) => void): Promise<DedupFindings> {
    const { dedup, retentionMs, name, keyOf } = this.#settings
    const marks: Mark[] = []
    const made = (): DedupMarks => new DedupMarks(marks, retentionMs, failed)
    if (dedup.length === 0) return { status: 'new', marks: made() }
    const key = inboxKey(keyOf(message), name).stored
    for (const store of dedup) {
      try {
        const result = await store.begin({ consumer: name, key, leaseMs: LEASE_MS })
        if (result.status === 'won') marks.push({ store, token: result.token })
        else {
          await made().release()
          return result.status === 'done'
            ? { status: 'done' }
            : { status: 'in-flight', retryAfterMs: result.retryAfterMs }
        }
      } catch (error) {
        if (store.onUnavailable === 'process' && isUnavailable(error, false)) {
          failed(error)
          continue
        }
        await made().release()
        throw error
      }
    }
    return { status: 'new', marks: made() }
  }
}
