import type { BatchContext } from '@txbox/consumer'

/** One call of `process`, which ends when the test says so. */
export interface RecordedBatch<T> extends BatchContext {
  readonly batch: readonly T[]
  readonly end: () => Promise<void>
  readonly fail: (error: unknown) => Promise<void>
}

/** A `process` that records its batches. */
export interface RecordedBatches<T> {
  readonly calls: RecordedBatch<T>[]
  /** The items of all calls so far. */
  readonly batches: () => (readonly T[])[]
  readonly process: (batch: readonly T[], about: BatchContext) => Promise<void>
}

/** @param isManual whether a batch lasts until the test ends it. */
export function recordedBatches<T>({
  isManual = false,
}: { readonly isManual?: boolean } = {}): RecordedBatches<T> {
  const calls: RecordedBatch<T>[] = []
  return {
    calls,
    batches: () => calls.map(({ batch }) => batch),
    process: (batch, { channel, signal }) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const end = async (): Promise<void> => (resolve(), turnEnd())
      const fail = async (error: unknown): Promise<void> => (reject(error), turnEnd())
      calls.push({ batch, channel, signal, end, fail })
      return isManual ? promise : Promise.resolve()
    },
  }
}

/** Lets every promise settle that can settle without a timer, an immediate or input. */
export async function turnEnd(): Promise<void> {
  for (let turn = 0; turn < 60; turn += 1) await Promise.resolve()
}

/** Whether a promise has settled by the end of this turn of the event loop. */
export async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false
  const settle = (): void => void (settled = true)
  promise.then(settle, settle)
  await turnEnd()
  return settled
}
