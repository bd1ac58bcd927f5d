import { BatcherClosedError } from './batcher-closed-error.ts'
import type { FlushGroup } from './flush-groups.ts'
import { LinkedQueue, type Link } from './linked-queue.ts'

export interface WaitingItem<T> {
  readonly item: T
  /** When the item began to wait, by `performance.now()`. */
  readonly addedAt: number
  readonly group: FlushGroup
}

/** A call of `added` that waits for room. */
interface Applicant<T> {
  readonly item: T
  readonly accept: () => void
  readonly refuse: (error: unknown) => void
}

/** One channel of a batcher. The batcher deletes a channel that has no waiting items and no batch in flight. */
export class BatchChannel<T> {
  readonly number: number
  readonly waiting = new LinkedQueue<WaitingItem<T>>()
  /** Runs until the oldest item has waited for the linger time. */
  timer: NodeJS.Timeout | undefined
  /** The place of the channel among the channels whose next batch is due. */
  due: Link<BatchChannel<T>> | undefined
  batchesInFlight = 0
  readonly #applicants = new LinkedQueue<Applicant<T>>()

  constructor(number: number) {
    this.number = number
  }

  /** Waits until the channel has room for the item. @throws the reason of the signal, if the signal is aborted earlier. */
  async room(item: T, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const link = this.#applicants.push({ item, accept: resolve, refuse: reject })
    const giveUp = (): void => {
      this.#applicants.remove(link)
      reject(signal?.reason as Error)
    }
    signal?.addEventListener('abort', giveUp, { once: true })
    try {
      await promise
    } finally {
      // A signal may outlive many calls, and must not keep their items in memory.
      signal?.removeEventListener('abort', giveUp)
    }
  }

  /** Takes the item of the call that has waited for room the longest, and resolves that call. */
  acceptApplicant(): { readonly item: T } | undefined {
    const applicant = this.#applicants.shift()
    applicant?.accept()
    return applicant
  }

  refuseApplicants(): void {
    for (let applicant = this.#applicants.shift(); applicant !== undefined;) {
      applicant.refuse(
        new BatcherClosedError(
          'batcher.added: the batcher was closed before there was room for the item. The item was not added.',
        ),
      )
      applicant = this.#applicants.shift()
    }
  }

  stopTimer(): void {
    clearTimeout(this.timer)
    this.timer = undefined
  }
}
