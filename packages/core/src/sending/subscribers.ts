import { InvalidMessageError, InvalidOptionError } from '../errors/errors.ts'
import { LIMITS } from '../options/limits.ts'
import { OptionChecker } from '../options/options.ts'
import type { Subscribers } from '../ports/outbox-store.ts'
import { nameOf } from '../text/name-of.ts'
import { oneLine } from '../text/one-line.ts'

/** The number of known types that an error message lists. */
export const LISTED_TYPES = 20

const LOCAL_CONSUMER = new RegExp(`^(?!@)[!-~]{1,${LIMITS.consumerCharacters}}$`)

/** What the name of a local consumer must be, for error messages. */
export const LOCAL_CONSUMER_NAME = `a name of 1 to ${LIMITS.consumerCharacters} visible ASCII characters (! to ~, no spaces) that does not begin with '@'`

/** Returns whether a local consumer can have this name. Names that begin with `@` are reserved for txbox. */
export function isLocalConsumerName(name: unknown): name is string {
  return typeof name === 'string' && LOCAL_CONSUMER.test(name)
}

/**
 * Checks the options `subscriptions`, `registered` and `unrouted` of an outbox.
 *
 * @returns `undefined` if the outbox has no local consumers.
 * @throws {InvalidOptionError} for a wrong type, list or name, and for the others without `subscriptions`.
 */
export function subscribersOption(where: string, options: object): Subscribers | undefined {
  const { subscriptions, unrouted, registered } = options as Readonly<Record<string, unknown>>
  const check = new OptionChecker(where, options)
  if (subscriptions === undefined) {
    const given = Object.entries({ unrouted, registered }).find(([, value]) => value !== undefined)
    if (given === undefined) return undefined
    throw new InvalidOptionError(
      `${where}: the option '${given[0]}' has no meaning without 'subscriptions': each message must have a topic.`,
    )
  }
  const onlyRegistered = subscriptions === 'registered'
  if (onlyRegistered && registered === false) {
    throw check.wrong('registered', "true or absent with subscriptions: 'registered'")
  }
  return {
    given: onlyRegistered ? new Map() : givenSubscriptions(check, subscriptions),
    registered: check.flag('registered', onlyRegistered),
    unrouted: check.oneOf('unrouted', ['refuse', 'ignore'], 'refuse'),
  }
}

function givenSubscriptions(
  check: OptionChecker,
  subscriptions: unknown,
): ReadonlyMap<string, readonly string[]> {
  // A Map has no members of its own: the subscriptions in it would be lost.
  if (Object.prototype.toString.call(subscriptions) !== '[object Object]') {
    throw check.wrong(
      'subscriptions',
      "'registered', or a plain object of types and their lists of consumers",
    )
  }
  return new Map(
    Object.entries(subscriptions as object).map(([type, consumers]) => {
      const ofType = new TypeChecker(check.where, type)
      ofType.refuseWrongType()
      return [type, ofType.consumers(consumers)]
    }),
  )
}

class TypeChecker {
  readonly #where: string
  readonly #type: string

  constructor(where: string, type: string) {
    this.#where = where
    this.#type = type
  }

  refuseWrongType(): void {
    const { length } = this.#type
    if (
      length >= 1 &&
      length <= LIMITS.typeCharacters &&
      !this.#type.includes('\0') &&
      this.#type.isWellFormed()
    )
      return
    throw this.#error(
      `must be well-formed text of 1 to ${LIMITS.typeCharacters} characters without NUL, because no message has it`,
    )
  }

  consumers(given: unknown): readonly string[] {
    if (!Array.isArray(given)) throw this.#error(`must have a list of consumers, not ${nameOf(given)}`)
    if (given.length === 0)
      throw this.#error('has an empty list of consumers: remove the type, or name a consumer')
    for (const [index, name] of given.entries()) {
      if (!isLocalConsumerName(name))
        throw this.#error(`must have ${LOCAL_CONSUMER_NAME} for each consumer, not ${shown(name)}`)
      if (given.indexOf(name) < index) throw this.#error(`names the consumer '${name}' twice`)
    }
    return [...(given as readonly string[])].toSorted()
  }

  #error(text: string): InvalidOptionError {
    return new InvalidOptionError(`${this.#where}: subscriptions: the type '${oneLine(this.#type)}' ${text}.`)
  }
}

function shown(name: unknown): string {
  return typeof name === 'string' ? `'${oneLine(name)}'` : nameOf(name)
}

/** Returns the consumers that an outbox was created with for a message of this type, sorted. */
export function givenConsumers({ given }: Subscribers, type: string | undefined): readonly string[] {
  return (type === undefined ? undefined : given.get(type)) ?? []
}

/**
 * Returns the error for messages that have neither a topic nor a subscriber.
 *
 * @param types the types of these messages.
 * @param known the types that have subscribers, sorted; more than {@link LISTED_TYPES} are cut.
 */
export function unroutedError(
  types: readonly (string | undefined)[],
  known: readonly string[],
): InvalidMessageError {
  const [type] = types
  const what = type === undefined ? 'without a type' : `of type ${quoted(type)}`
  const others = types.length > 1 ? `, and ${types.length - 1} more of the same call,` : ''
  const listed = known.slice(0, LISTED_TYPES).map(quoted).join(', ')
  const more = known.length > LISTED_TYPES ? ' and others' : ''
  return new InvalidMessageError(
    `publish: a message ${what}${others} has no topic, and no local consumer subscribes to its type. ` +
      (known.length === 0
        ? 'No type has a subscriber.'
        : `The types with subscribers are ${listed}${more}.`) +
      " Correct the type, give the message a topic, start its consumer once, or create the outbox with unrouted: 'ignore'. " +
      'Nothing was written.',
  )
}

/** Shows a type that differs from another one only in a space, too. */
function quoted(type: string): string {
  return oneLine(type) === type ? `'${type}'` : JSON.stringify(type)
}
