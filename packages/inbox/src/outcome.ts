/** The type that a `T` has after it was converted to JSON and parsed again. */
export type Stored<T> = T extends string | number | boolean | null
  ? T
  : T extends Date
    ? string
    : T extends { toJSON(): infer J }
      ? Stored<J>
      : // oxlint-disable-next-line typescript/no-unsafe-function-type -- any function is lost in JSON
        T extends undefined | Function | symbol
        ? undefined
        : T extends readonly (infer U)[]
          ? Stored<U>[]
          : T extends object
            ? { [K in keyof T]: Stored<T[K]> }
            : unknown

/**
 * The outcome of one delivery. `key` is the text of the key before any hashing; a composite key is shown as a JSON
 * array.
 */
export type InboxOutcome<R = unknown> =
  /** This delivery was the first, and the handler ran. The effect is durable when the transaction has committed. */
  | { readonly status: 'processed'; readonly key: string; readonly result: R }
  /**
   * The message was handled before, and the handler did not run. `firstProcessedAt` is the time of the first claim, by
   * the database's clock.
   */
  | {
      readonly status: 'duplicate'
      readonly key: string
      readonly firstProcessedAt: Date
      readonly result?: Stored<R>
    }
  /** Another delivery of the message is in flight. Occurs only with `inFlight: 'report'`. */
  | { readonly status: 'in-flight'; readonly key: string }
  /** The message is older than `maxAgeMs`. Occurs only with `maxAgeMs`. */
  | { readonly status: 'too-old'; readonly key: string }

/**
 * Returns whether the delivery can be acknowledged once the transaction has committed: `false` only for `'in-flight'`.
 */
export function isSettled(outcome: InboxOutcome): boolean {
  return outcome.status !== 'in-flight'
}
