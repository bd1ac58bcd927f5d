import { InvalidOptionError, hours } from '@txbox/core'
import { OptionChecker, loggedEvents, nameOf, type LoggedEvents } from '@txbox/core/internal'
import { BatchChannel, type WaitingItem } from './batch-channel.ts'
import { MAX_BATCH_SIZE, lingerOption, maxSizeOption, type BatcherSettings } from './batcher-settings.ts'
import type { Batcher, BatcherEvents, CloseOptions } from './batcher.ts'
import { BatcherClosedError } from './batcher-closed-error.ts'
import { FlushGroups } from './flush-groups.ts'
import { LinkedQueue } from './linked-queue.ts'
import { BATCHER_LOG_LINES } from './log-events.ts'

export class ChannelBatcher<T> implements Batcher<T> {
  readonly #settings: BatcherSettings<T>
  readonly #log: LoggedEvents<BatcherEvents<T>>
  /** The maximum number of batches of one channel at a time: a single channel may use the whole concurrency. */
  readonly #batchesPerChannel: number
  /** The channels that hold items, by number. */
  readonly #channels = new Map<number, BatchChannel<T>>()
  /** The channels whose next batch may begin, in the order in which it became due. */
  readonly #due = new LinkedQueue<BatchChannel<T>>()
  readonly #groups = new FlushGroups()
  readonly #inFlight = new Set<AbortController>()
  #maxSize: number
  #lingerMs: number
  #size = 0
  #isBeginning = false
  #isAborted = false
  #closing: Promise<void> | undefined

  constructor(settings: BatcherSettings<T>) {
    this.#settings = settings
    this.#log = loggedEvents<BatcherEvents<T>>(settings.logger, BATCHER_LOG_LINES)
    this.#batchesPerChannel = settings.channels === 1 ? settings.concurrency : 1
    this.#maxSize = settings.maxSize
    this.#lingerMs = settings.lingerMs
  }

  get size(): number {
    return this.#size
  }

  get maxSize(): number {
    return this.#maxSize
  }

  set maxSize(maxSize: number) {
    const max = Math.min(MAX_BATCH_SIZE, this.#settings.capacity)
    this.#maxSize = maxSizeOption(new OptionChecker('batcher', { maxSize }), max)
    this.#updateAll()
  }

  get lingerMs(): number {
    return this.#lingerMs
  }

  set lingerMs(lingerMs: number) {
    this.#lingerMs = lingerOption(new OptionChecker('batcher', { lingerMs }))
    this.#updateAll()
  }

  on<E extends keyof BatcherEvents<T>>(event: E, listener: (event: BatcherEvents<T>[E]) => void): () => void {
    return this.#log.events.on(event, listener)
  }

  add(item: T): boolean {
    if (this.#closing !== undefined) return false
    const channel = this.#channelOf(item)
    if (this.#isFull(channel)) return false
    this.#admit(channel, item)
    this.#update(channel)
    return true
  }

  async added(item: T, options: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    const signal = new OptionChecker('batcher.added', options).known('signal').signal('signal')
    signal?.throwIfAborted()
    if (this.#closing !== undefined) {
      throw new BatcherClosedError('batcher.added: the batcher has been closed. The item was not added.')
    }
    const channel = this.#channelOf(item)
    if (this.#isFull(channel)) return channel.room(item, signal)
    this.#admit(channel, item)
    this.#update(channel)
  }

  async flush(): Promise<void> {
    const flushed = this.#groups.flush()
    this.#updateAll()
    await flushed
  }

  async close(options: CloseOptions = {}): Promise<void> {
    const timeoutMs = new OptionChecker('batcher.close', options)
      .known('timeoutMs')
      .milliseconds('timeoutMs', { min: 0, max: hours(1), default: 0 })
    this.#closing ??= this.#drain()
    const timer =
      options.timeoutMs === undefined ? undefined : setTimeout(() => this.#abort(), Math.ceil(timeoutMs))
    await this.#closing
    clearTimeout(timer)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #drain(): Promise<void> {
    for (const channel of this.#channels.values()) channel.refuseApplicants()
    await this.flush()
    this.#log.end()
  }

  #abort(): void {
    this.#isAborted = true
    for (const controller of this.#inFlight) controller.abort(closingTakesTooLong())
  }

  /** @throws {InvalidOptionError} when `channelOf` returns no channel. */
  #channelOf(item: T): BatchChannel<T> {
    const { channelOf, channels } = this.#settings
    const number: unknown = channelOf(item)
    if (!Number.isSafeInteger(number) || (number as number) < 0 || (number as number) >= channels) {
      throw new InvalidOptionError(
        `batcher: channelOf must return a whole number from 0 to ${channels - 1}, not ${nameOf(number)}. The item was not added.`,
      )
    }
    // The channel -0 is the channel 0.
    const index = (number as number) + 0
    const channel = this.#channels.get(index) ?? new BatchChannel<T>(index)
    this.#channels.set(index, channel)
    return channel
  }

  #isFull(channel: BatchChannel<T>): boolean {
    return channel.waiting.length >= this.#settings.capacity
  }

  #admit(channel: BatchChannel<T>, item: T): void {
    channel.waiting.push({ item, addedAt: performance.now(), group: this.#groups.enter() })
    this.#size += 1
  }

  #updateAll(): void {
    for (const channel of this.#channels.values()) {
      channel.stopTimer()
      this.#update(channel)
    }
  }

  /** Decides, after any change, whether the next batch of the channel is due, waits for its linger time, or has no items. */
  #update(channel: BatchChannel<T>): void {
    const remainingMs = this.#remainingMs(channel)
    if (remainingMs <= 0) {
      channel.stopTimer()
      channel.due ??= this.#due.push(channel)
      this.#beginSoon()
      return
    }
    if (channel.due !== undefined) this.#due.remove(channel.due)
    channel.due = undefined
    if (remainingMs === Infinity) channel.stopTimer()
    else channel.timer ??= setTimeout(() => this.#lingered(channel), Math.ceil(remainingMs))
    if (channel.waiting.length === 0 && channel.batchesInFlight === 0) this.#channels.delete(channel.number)
  }

  #lingered(channel: BatchChannel<T>): void {
    // A timer may fire a fraction of a millisecond early: the update then starts another one.
    channel.timer = undefined
    this.#update(channel)
  }

  /** The time until the next batch of the channel is due; infinite if an item must be added or a batch must end first. */
  #remainingMs({ waiting, batchesInFlight }: BatchChannel<T>): number {
    const oldest = waiting.first
    if (oldest === undefined || batchesInFlight >= this.#batchesPerChannel) return Infinity
    if (waiting.length >= this.#maxSize || this.#lingerMs === 0) return 0
    if (this.#groups.isFlushed(oldest.group)) return 0
    return oldest.addedAt + this.#lingerMs - performance.now()
  }

  /** Begins batches at the end of the current turn, so that items of one turn go together, and `add` never runs `process`. */
  #beginSoon(): void {
    if (this.#isBeginning || this.#inFlight.size >= this.#settings.concurrency) return
    this.#isBeginning = true
    queueMicrotask(() => {
      this.#isBeginning = false
      this.#begin()
    })
  }

  #begin(): void {
    while (this.#inFlight.size < this.#settings.concurrency) {
      const channel = this.#due.shift()
      if (channel === undefined) return
      channel.due = undefined
      void this.#process(channel, this.#take(channel))
    }
  }

  /** Takes a batch from the channel, and gives its room to the calls that have waited for room the longest. */
  #take(channel: BatchChannel<T>): readonly WaitingItem<T>[] {
    const taken: WaitingItem<T>[] = []
    while (taken.length < this.#maxSize) {
      const next = channel.waiting.shift()
      if (next === undefined) break
      taken.push(next)
    }
    this.#size -= taken.length
    while (!this.#isFull(channel)) {
      const applicant = channel.acceptApplicant()
      if (applicant === undefined) break
      this.#admit(channel, applicant.item)
    }
    return taken
  }

  async #process(channel: BatchChannel<T>, taken: readonly WaitingItem<T>[]): Promise<void> {
    const controller = new AbortController()
    if (this.#isAborted) controller.abort(closingTakesTooLong())
    this.#inFlight.add(controller)
    channel.batchesInFlight += 1
    this.#update(channel)
    const startedAt = performance.now()
    const about = { channel: channel.number, signal: controller.signal }
    const { process } = this.#settings
    try {
      await process(itemsOf(taken), about)
      const durationMs = performance.now() - startedAt
      this.#log.events.emit('flushed', { channel: channel.number, size: taken.length, durationMs })
    } catch (error) {
      this.#log.events.emit('error', { error, channel: channel.number, batch: itemsOf(taken) })
    }
    this.#inFlight.delete(controller)
    channel.batchesInFlight -= 1
    for (const { group } of taken) this.#groups.leave(group)
    this.#update(channel)
    this.#beginSoon()
  }
}

/** Copies the items for each receiver, because a receiver may change its list. */
function itemsOf<T>(taken: readonly WaitingItem<T>[]): readonly T[] {
  return taken.map(({ item }) => item)
}

function closingTakesTooLong(): DOMException {
  return new DOMException(
    'The batcher is being closed, and the time limit of close has passed.',
    'AbortError',
  )
}
