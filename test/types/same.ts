/** True when two types are the same, `any` and optionality included. */
export type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Does not compile unless its type argument is `true`. */
export function assertType<_ extends true>(): void {}
