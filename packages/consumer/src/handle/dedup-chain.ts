import { DedupStoreUnavailableError, type DedupResult, type DedupStore } from '@txbox/core'
import { inboxKey, unlessAborted, within } from '@txbox/core/internal'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { isStopped, isUnavailable } from '../errors/failure-kind.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import { Heartbeats, type Heartbeat } from '../receive/heartbeats.ts'

/** How long a mark excludes other deliveries of the message, unless the mark is extended. */
const LEASE_MS = 30_000

/** How long a store may take for an answer. Less than a lease, so that an unanswered extension can be repeated. */
const ANSWER_MS = 10_000

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
    await Promise.all(this.#marks.map(({ store, token }) => answer(() => store.extend(token, LEASE_MS))))
  }

  /**
   * Marks the message as handled. The error of a store is only reported, because the effect exists and the delivery must be
   * accepted.
   *
   * @param signal ends the wait for the stores.
   */
  complete(signal?: AbortSignal): Promise<void> {
    const { report } = this
    return this.#end(
      async ({ store, token }) => store.complete(token, { retentionMs: this.#retentionMs }),
      // The reason of the signal is about the handler, which has succeeded.
      (error) => report(signal?.aborted === true ? unanswered() : error),
      signal,
    )
  }

  /** Removes the marks of a message that was not handled, so that another delivery may handle it. */
  release(): Promise<void> {
    return this.#end(({ store, token }) => store.release(token), this.report)
  }

  async #end(
    how: (mark: Mark) => Promise<unknown>,
    report: (error: unknown) => void,
    signal?: AbortSignal,
  ): Promise<void> {
    this.#heartbeat.stop()
    await Promise.all(this.#marks.map((mark) => answer(() => how(mark), signal).catch(report)))
  }
}

/**
 * Waits for the answer of a store, but not longer than `ANSWER_MS`.
 *
 * @throws {DedupStoreUnavailableError} when there is no answer in time.
 * @throws the reason of the signal, when the signal is aborted before there is an answer.
 */
function answer<T>(ask: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  // A store may also throw before it returns a promise. An unanswered question must not keep the process alive.
  const asking = (async () => ask())()
  const late = (): never => {
    throw unanswered()
  }
  return within(unlessAborted(asking, signal), ANSWER_MS, late, { ref: false })
}

function unanswered(): DedupStoreUnavailableError {
  return new DedupStoreUnavailableError(
    `The dedup store has not answered within ${ANSWER_MS} ms, or until the handling was given up. Check that the store runs and ` +
      'can be reached.',
  )
}

/** Asks the dedup stores one after another: the first store that knows a message decides. */
export class DedupChain {
  readonly #heartbeats = new Heartbeats(LEASE_MS)
  readonly #settings: ConsumerSettings

  constructor(settings: ConsumerSettings) {
    this.#settings = settings
  }

  /**
   * Reports the error of a store that the chain skips because an inbox recognizes duplicates.
   *
   * @param signal ends the wait for the stores.
   * @throws {DedupStoreUnavailableError} when any other store cannot be reached. The marks of earlier stores are released.
   */
  async begin(held: HeldDelivery, signal: AbortSignal): Promise<DedupFindings> {
    const { message } = held
    const report = (error: unknown): void => held.report(error)
    const { dedup, retentionMs, name, keyOf } = this.#settings
    const marks: Mark[] = []
    const how = { retentionMs, heartbeats: this.#heartbeats, report }
    const release = (): Promise<void> => new DedupMarks(marks, how).release()
    const key = inboxKey(keyOf(message), name).stored
    for (const store of dedup) {
      try {
        const result = await begun(store, { consumer: name, key, leaseMs: LEASE_MS }, signal)
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

/** Asks a store. A mark that the store makes after the wait has ended is released. */
async function begun(
  store: DedupStore,
  claim: Parameters<DedupStore['begin']>[0],
  signal: AbortSignal,
): Promise<DedupResult> {
  const asking = (async () => store.begin(claim))()
  try {
    return await answer(() => asking, signal)
  } catch (error) {
    const late = async (): Promise<void> => {
      const result = await asking
      if (result.status === 'won') await store.release(result.token)
    }
    // The lease of a mark that cannot be released ends by itself.
    void late().catch(() => undefined)
    // If handling has timed out before the handler was called, the message is not at fault.
    throw signal.aborted && !isStopped(error) ? unanswered() : error
  }
}
