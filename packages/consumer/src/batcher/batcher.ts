import type { Logger } from '@txbox/core'

export interface BatchContext {
  /** The channel of all items of the batch: 0 without `channels`. */
  readonly channel: number
  /**
   * Aborted when the `timeoutMs` of `close` have passed, so that `process` can end early. A batch that begins after that
   * gets a signal that is aborted already. Without `timeoutMs` the signal is never aborted.
   */
  readonly signal: AbortSignal
}

/** The events of a batcher, for logs and metrics. An error that a listener throws does not disturb the batcher. */
export interface BatcherEvents<T> {
  /** `process` has returned, and its promise, if there is one, has resolved. */
  flushed: {
    readonly channel: number
    readonly size: number
    readonly durationMs: number
  }
  /**
   * `process` has thrown or rejected: `batch` contains the items, which the batcher does not process again. The event is
   * also emitted when a listener has thrown; it then has no `channel` and no `batch`. Without a listener and without a
   * `logger`, the first error becomes a process warning.
   */
  error: {
    readonly error: unknown
    readonly channel?: number
    readonly batch?: readonly T[]
  }
}

export interface BatcherOptions<T> {
  /**
   * Processes one batch of 1 to `maxSize` items of one channel, in the order in which they were added. The batch ends when
   * the returned promise settles, so bound the time that `process` takes. An error affects only this batch, and is
   * reported by the event `error`.
   *
   * `process` may call `add`. Do not await `added`, `flush` or `close` inside `process`: they may wait for the end of the
   * same batch, and would then wait forever.
   */
  process: (batch: readonly T[], about: BatchContext) => Promise<void> | void
  /** The maximum number of items in a batch, 1 to 100,000. */
  maxSize: number
  /**
   * How long the oldest item of a channel waits for more items, 0 to 3,600,000 ms. With 0, no item waits for others: a
   * batch contains the items that were added while earlier batches were processed. @default 0
   */
  lingerMs?: number | undefined
  /**
   * The number of items that may wait in each channel, `maxSize` to 10,000,000. Items that are being processed do not
   * wait. @default 1000, or `maxSize` if that is greater
   */
  capacity?: number | undefined
  /** The maximum number of batches that are processed at the same time, 1 to 1000. @default 1 */
  concurrency?: number | undefined
  /**
   * The number of channels, 1 to 65,536. With several channels, each has its own batches, capacity and linger time, and
   * processes one batch at a time. An empty channel costs nothing. @default 1
   */
  channels?: number | undefined
  /** Returns the channel of an item: a whole number from 0 to `channels` - 1. Required with several channels. */
  channelOf?: ((item: T) => number) | undefined
  /**
   * A logger with pino's argument order, or `consoleLogger()`. Without a logger, the first error that has no listener
   * becomes a process warning with the code `TXBOX_UNHEARD_ERROR`; `false` suppresses the warning. Log lines do not
   * contain items.
   */
  logger?: Logger | false | undefined
}

export interface CloseOptions {
  /**
   * The time after which the `signal` of each call of `process` is aborted, 0 to 1 h. `close` still waits for these calls,
   * and processes the items that wait. If `close` is called several times, the earliest limit applies. @default no limit
   */
  timeoutMs?: number | undefined
}

/** Collects single items into batches. The program is kept alive while items wait for their linger time. */
export interface Batcher<T> extends AsyncDisposable {
  /**
   * Adds an item, which is processed later: at the end of this turn of the event loop at the earliest.
   *
   * @returns `false` if the channel of the item is full, or if the batcher has been closed. The item was not added then.
   * @throws {InvalidOptionError} when `channelOf` returns no channel. Other items are not affected.
   */
  add(item: T): boolean
  /**
   * Adds an item as soon as its channel has room. Waiting calls get room in the order in which they were made, and before
   * any call of `add`. Resolves when the item has been added, not when it has been processed. When the promise rejects,
   * the item was not added.
   *
   * @throws {BatcherClosedError} when the batcher has been closed, or is closed before there is room.
   * @throws {InvalidOptionError} when `channelOf` returns no channel, or an option is wrong.
   * @throws the reason of `signal`, when `signal` is aborted before there is room.
   */
  added(
    item: T,
    options?: {
      /** Gives up waiting for room. */
      signal?: AbortSignal | undefined
    },
  ): Promise<void>
  /**
   * Processes all items that wait without waiting for more. Resolves when every item that was added before the call has
   * been processed, or has failed, which the event `error` reports. Items of `added` calls that still wait for room are
   * not included.
   */
  flush(): Promise<void>
  /**
   * Accepts no more items, rejects `added` calls that wait for room, and processes all items that wait without waiting
   * for more. Resolves when the last batch has ended. A second call waits for the same end.
   *
   * @throws {InvalidOptionError} for a wrong option.
   */
  close(options?: CloseOptions): Promise<void>
  /** The same as `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
  /** The number of items that wait in all channels, without the items that are being processed. */
  readonly size: number
  /**
   * The maximum number of items in a batch, 1 to `capacity` and to 100,000. A change takes effect at once, also for items
   * that wait.
   *
   * @throws {InvalidOptionError} when set to anything else.
   */
  maxSize: number
  /**
   * How long the oldest item waits for more items, 0 to 3,600,000 ms. A change takes effect at once, also for items that
   * wait.
   *
   * @throws {InvalidOptionError} when set to anything else.
   */
  lingerMs: number
  /** Calls `listener` for each event. @returns a function that removes the listener. */
  on<E extends keyof BatcherEvents<T>>(event: E, listener: (event: BatcherEvents<T>[E]) => void): () => void
}
