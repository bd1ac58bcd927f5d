import {
  BrokerUnavailableError,
  RetryLaterError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
} from '@txbox/core'
import {
  type OrderedBatch,
  type RememberedNames,
  destinationOf,
  oneLine,
  outgoingOrRejected,
  reasonOf,
  unlessAborted,
  within,
} from '@txbox/core/internal'
import { droppedByPolicy, insertFailure, rejectionOf } from './insert-errors.ts'
import { outgoingJob, type OutgoingJob } from './outgoing-job.ts'
import type { PgBossSettings } from './pg-boss-options.ts'

const MOST_JOBS = 1000
const MOST_BYTES = 8 * 1024 * 1024
/** How many jobs that an insert has left out are looked up at a time. */
const LOOKUPS = 8

const ACCEPTED: PublishResult = { status: 'accepted' }

export interface CallSettings extends PgBossSettings {
  /** The queues that have accepted a message of this publisher. */
  readonly known: RememberedNames
}

/** A message of the call that is inserted now. */
interface Due {
  readonly place: number
  readonly message: OutboxMessage
  readonly outgoing: OutgoingJob
}

/** One call of `publish`. A wave holds at most one message of a key, so that a refused message stops those that follow it. */
export class PublishCall {
  readonly #settings: CallSettings
  readonly #batch: OrderedBatch
  readonly #answered: PublishOptions['answered']
  readonly #signal: AbortSignal

  constructor(settings: CallSettings, batch: OrderedBatch, { signal, answered }: PublishOptions) {
    this.#settings = settings
    this.#batch = batch
    this.#answered = answered
    this.#signal = signal
  }

  /** @throws {BrokerUnavailableError} when an insert fails for a reason that says nothing about its messages. */
  async run(): Promise<void> {
    for (;;) {
      const places = this.#batch.due()
      if (places.length === 0) return
      await this.#wave(places)
    }
  }

  /** Inserts the messages at these places, except those whose job is in the wave already: they wait for the next wave. */
  async #wave(places: readonly number[]): Promise<void> {
    const queues = new Map<string, Map<string, Due>>()
    for (const place of places) {
      const message = this.#batch.messages[place]!
      const outgoing = this.#jobOrRejection(message)
      if ('status' in outgoing) {
        this.#settle(place, outgoing)
        continue
      }
      const jobs = queues.get(outgoing.queue) ?? new Map<string, Due>()
      queues.set(outgoing.queue, jobs)
      if (!jobs.has(outgoing.id)) jobs.set(outgoing.id, { place, message, outgoing })
    }
    // Nothing of this call may be in flight when the call throws.
    const ended = await Promise.allSettled(
      [...queues.values()].map((jobs) => this.#insertAll([...jobs.values()])),
    )
    const failed = ended.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
  }

  async #insertAll(jobs: readonly Due[]): Promise<void> {
    let chunk: Due[] = []
    let bytes = 0
    for (const due of jobs) {
      if (chunk.length === MOST_JOBS || (chunk.length > 0 && bytes + due.outgoing.bytes > MOST_BYTES)) {
        await this.#insert(chunk)
        chunk = []
        bytes = 0
      }
      chunk.push(due)
      bytes += due.outgoing.bytes
    }
    if (chunk.length > 0) await this.#insert(chunk)
  }

  /** Inserts jobs of one queue. If one of them is refused, halves of them are inserted, until it is alone. */
  async #insert(jobs: readonly Due[]): Promise<void> {
    const { known } = this.#settings
    const { queue } = jobs[0]!.outgoing
    let inserted: ReadonlySet<string>
    try {
      inserted = await this.#insertedIds(queue, jobs)
    } catch (error) {
      await this.#refused(queue, jobs, error)
      return
    }
    known.add(queue)
    const left: Due[] = []
    for (const due of jobs) {
      if (inserted.has(due.outgoing.id)) this.#settle(due.place, ACCEPTED)
      else left.push(due)
    }
    await this.#lookUp(queue, left)
  }

  async #insertedIds(queue: string, jobs: readonly Due[]): Promise<ReadonlySet<string>> {
    const { boss } = this.#settings
    const ids = await this.#answer(
      boss.insert(
        queue,
        jobs.map(({ outgoing }) => outgoing.job),
        { returnId: true },
      ),
    )
    return new Set(ids ?? [])
  }

  async #refused(queue: string, jobs: readonly Due[], error: unknown): Promise<void> {
    this.#signal.throwIfAborted()
    const failure = insertFailure(error)
    if (failure === 'outage') throw unavailable(error)
    if (failure !== 'queue-missing' && jobs.length > 1) {
      const half = Math.ceil(jobs.length / 2)
      await this.#insert(jobs.slice(0, half))
      await this.#insert(jobs.slice(half))
      return
    }
    const wasThere = this.#settings.known.has(queue)
    for (const { place, message } of jobs) {
      this.#settle(place, rejectionOf({ id: message.id, queue }, failure, error, wasThere))
    }
  }

  /** A job that was left out is there already, as the message was sent before, or the policy of the queue has dropped it. */
  async #lookUp(queue: string, jobs: readonly Due[]): Promise<void> {
    for (let from = 0; from < jobs.length; from += LOOKUPS) {
      await Promise.all(
        jobs.slice(from, from + LOOKUPS).map(async ({ place, message, outgoing }) => {
          const found = await this.#found(queue, outgoing.id)
          this.#settle(place, found ? ACCEPTED : droppedByPolicy({ id: message.id, queue }))
        }),
      )
    }
  }

  async #found(queue: string, id: string): Promise<boolean> {
    try {
      const job = await this.#answer(this.#settings.boss.getJobById(queue, id))
      return job !== null && job !== undefined
    } catch (error) {
      this.#signal.throwIfAborted()
      throw unavailable(error)
    }
  }

  async #answer<T>(statement: Promise<T>): Promise<T> {
    const { confirmTimeoutMs } = this.#settings
    const late = (): never => {
      throw new BrokerUnavailableError(`pg-boss has not answered within ${confirmTimeoutMs} ms.`)
    }
    return await unlessAborted(within(statement, confirmTimeoutMs, late), this.#signal)
  }

  #jobOrRejection(message: OutboxMessage): OutgoingJob | PublishResult {
    const { queueOf, data, maxMessageBytes } = this.#settings
    return outgoingOrRejected(() => {
      const queue = destinationOf(message, 'queue', queueOf)
      return outgoingJob(message, { queue, data, options: this.#jobOptions(message), maxMessageBytes })
    })
  }

  #jobOptions(message: OutboxMessage): object {
    try {
      const options: unknown = this.#settings.jobOf?.(message) ?? {}
      if (typeof options === 'object') return options!
      throw new TypeError(`it returned a value of the type ${typeof options}`)
    } catch (error) {
      const text = `Message ${oneLine(message.id)} has no job, because the option 'job' failed: ${reasonOf(error, 300)}`
      throw new RetryLaterError({ message: text, cause: error })
    }
  }

  #settle(place: number, result: PublishResult): void {
    this.#batch.settle(place, result)
    this.#answered?.(place, result)
    if (result.status === 'accepted') return
    for (let next = this.#batch.after(place); next !== undefined; next = this.#batch.after(next)) {
      this.#answered?.(next, this.#batch.results[next]!)
    }
  }
}

/** @returns the error of a call whose fate is unknown. */
export function unavailable(error: unknown): BrokerUnavailableError {
  if (error instanceof BrokerUnavailableError) return error
  return new BrokerUnavailableError(
    `pg-boss did not answer as expected: ${reasonOf(error, 500)}. Check that boss.start() has succeeded, and that its database can be reached.`,
    { cause: error },
  )
}
