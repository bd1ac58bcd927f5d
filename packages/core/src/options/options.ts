import { nameOf } from '../text/name-of.ts'
import { InvalidOptionError } from '../errors/errors.ts'
import { oneLine } from '../text/one-line.ts'

/**
 * Checks options when an object is created, so that a mistake shows at start-up and not at the first message. `where`
 * is the name of the function that the user called; every error message begins with `where`.
 */
export class OptionChecker {
  readonly where: string
  readonly #options: Readonly<Record<string, unknown>>

  constructor(where: string, options: object) {
    this.where = where
    this.#options = options as Record<string, unknown>
    if (typeof options !== 'object' || options === null || Array.isArray(options)) {
      throw new InvalidOptionError(`${where}: expected an object of options, not ${nameOf(options)}.`)
    }
  }

  /** Refuses every option that is not in `known`: a misspelt option is never ignored. */
  known(...known: readonly string[]): this {
    for (const name of Object.keys(this.#options)) {
      if (!known.includes(name) && this.#options[name] !== undefined) {
        const given = nameOf(this.#options)
        throw new InvalidOptionError(
          `${this.where}: there is no option '${oneLine(name)}'. The options are ${known.join(', ')}.` +
            // Such as a pool that was passed instead of `{ db: pool }`.
            (given === 'an object' ? '' : ` Pass an object of options, not ${given}.`),
        )
      }
    }
    return this
  }

  text(name: string, bounds: { max: number; default?: string }): string {
    const value = this.#options[name] ?? bounds.default
    if (typeof value !== 'string' || value.length < 1 || value.length > bounds.max) {
      throw this.wrong(name, `text of 1 to ${bounds.max} characters`)
    }
    if (value.includes('\0') || !value.isWellFormed()) {
      throw this.wrong(name, 'text without NUL characters or lone surrogates')
    }
    return value
  }

  integer(name: string, bounds: { min: number; max: number; default: number }): number {
    const value = this.#options[name] ?? bounds.default
    if (!Number.isSafeInteger(value) || !within(value as number, bounds)) {
      throw this.wrong(name, `a whole number from ${bounds.min} to ${bounds.max}`)
    }
    return value as number
  }

  /** Fractions are allowed. */
  milliseconds(name: string, bounds: { min: number; max: number; default: number }): number {
    const value = this.#options[name] ?? bounds.default
    if (typeof value !== 'number' || !within(value, bounds)) {
      throw this.wrong(name, `a number of milliseconds from ${bounds.min} to ${bounds.max}`)
    }
    return value
  }

  flag(name: string, fallback: boolean): boolean {
    const value = this.#options[name] ?? fallback
    if (typeof value !== 'boolean') throw this.wrong(name, 'true or false')
    return value
  }

  oneOf<T extends string>(name: string, choices: readonly T[], fallback: T): T {
    const value = this.#options[name] ?? fallback
    if (!choices.includes(value as T)) {
      throw this.wrong(name, choices.map((choice) => `'${choice}'`).join(' or '))
    }
    return value as T
  }

  callback<F extends (...args: never[]) => unknown>(name: string): F | undefined {
    const value = this.#options[name]
    if (value === undefined) return undefined
    if (typeof value !== 'function') throw this.wrong(name, 'a function')
    return value as F
  }

  /** A list, each of whose members must pass `isMember`. @default an empty list */
  list<T>(name: string, isMember: (value: unknown) => value is T, expected: string): readonly T[] {
    const value = this.#options[name] ?? []
    if (!Array.isArray(value) || !value.every(isMember)) throw this.wrong(name, expected)
    return value
  }

  signal(name: string): AbortSignal | undefined {
    const value = this.#options[name]
    if (value === undefined) return undefined
    if (!(value instanceof AbortSignal)) throw this.wrong(name, 'an AbortSignal')
    return value
  }

  wrong(name: string, expected: string): InvalidOptionError {
    return new InvalidOptionError(
      `${this.where}: the option '${name}' must be ${expected}, not ${nameOf(this.#options[name])}.`,
    )
  }
}

function within(value: number, bounds: { min: number; max: number }): boolean {
  return value >= bounds.min && value <= bounds.max
}
