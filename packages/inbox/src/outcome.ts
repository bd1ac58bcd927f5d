/** What R is after a trip through JSON. */
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

/** What became of one delivery. `key` is the key's text, before any hashing; a composite key as a JSON array. */
export type InboxOutcome<R = unknown> =
  /** This delivery was the first: the handler ran. It counts once the transaction commits. */
  | { readonly status: 'processed'; readonly key: string; readonly result: R }
  /** Handled before: the handler did not run. `firstProcessedAt` is the database's clock at the first claim. */
  | {
      readonly status: 'duplicate'
      readonly key: string
      readonly firstProcessedAt: Date
      readonly result?: Stored<R>
    }
  /** Another delivery is being handled now. Only with `inFlight: 'report'`. */
  | { readonly status: 'in-flight'; readonly key: string }
  /** Older than `maxAgeMs`. Only with `maxAgeMs`. */
  | { readonly status: 'too-old'; readonly key: string }

/** May the broker forget this delivery, once the transaction has committed? `false` only for `'in-flight'`. */
export function isSettled(outcome: InboxOutcome): boolean {
  return outcome.status !== 'in-flight'
}
