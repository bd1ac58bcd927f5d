import { atLeastOnce, createLocalConsumer, type LocalConsumer } from '@txbox/consumer'
import { LOCAL_ENTRY_OPTIONS, markedHandlerOf } from '@txbox/consumer/internal'
import { InvalidOptionError } from '@txbox/core'
import { OptionChecker, nameOf, oneLine } from '@txbox/core/internal'
import type { Ambient } from './ambient.ts'
import { creating } from './box-settings.ts'

type Handler = (...args: readonly unknown[]) => unknown

/** The options of an entry of `consumers`, which is these options, or the handlers alone. */
export function consumerOptions(name: string, entry: object): Readonly<Record<string, unknown>> {
  const { handlers } = entry as { readonly handlers?: unknown }
  // A type may be named 'handlers', too.
  const isHandler = typeof handlers === 'function' || markedHandlerOf(handlers) !== undefined
  if (handlers === undefined || isHandler) return { handlers: entry }
  new OptionChecker(`createTxbox, consumer '${oneLine(name)}'`, entry).known(...LOCAL_ENTRY_OPTIONS)
  return entry as Readonly<Record<string, unknown>>
}

/** Creates a local consumer whose handlers find their transaction. */
export function localPart(
  name: string,
  entry: object,
  { ambient, ...common }: { readonly ambient: Ambient; readonly database: object },
): LocalConsumer {
  const options = consumerOptions(name, entry)
  return creating(`consumer '${oneLine(name)}'`, () =>
    createLocalConsumer({
      ...common,
      ...options,
      consumer: name,
      handlers: finding(ambient, options['handlers']),
    } as never),
  )
}

/** Wrong handlers are left as they are: the consumer refuses them. */
function finding(ambient: Ambient, handlers: unknown): unknown {
  if (typeof handlers !== 'object' || handlers === null || Array.isArray(handlers)) return handlers
  return Object.fromEntries(
    Object.entries(handlers).map(([type, handler]: [string, unknown]) => {
      const marked = markedHandlerOf(handler) as Handler | undefined
      if (marked !== undefined) {
        return [type, atLeastOnce((message, context) => ambient.outside(() => marked(message, context)))]
      }
      if (typeof handler !== 'function') return [type, handler]
      const inTransaction: Handler = (tx, ...rest) =>
        ambient.inside(tx, () => (handler as Handler)(tx, ...rest))
      return [type, inTransaction]
    }),
  )
}

/**
 * The subscriptions of a box: those that it was given, and those of its own consumers.
 *
 * @throws {InvalidOptionError} when a type names a consumer of the box that has no handler for the type, or a source.
 */
export function subscriptionsOf(
  given: Readonly<Record<string, unknown>>,
  consumers: ReadonlyMap<string, object>,
  sources: ReadonlyMap<string, object>,
): Readonly<Record<string, unknown>> {
  const all: Record<string, unknown> = Object.create(null) as Record<string, unknown>
  for (const [type, names] of Object.entries(given)) {
    all[type] = names
    for (const name of Array.isArray(names) ? (names as readonly unknown[]) : []) {
      refuseWithoutHandler(type, String(name), consumers, sources)
    }
  }
  for (const [name, entry] of consumers) {
    const { handlers } = consumerOptions(name, entry)
    for (const type of Object.keys(Object(handlers) as object)) {
      const others = all[type] ?? []
      if (Array.isArray(others) && !others.includes(name)) all[type] = [...(others as unknown[]), name]
    }
  }
  return { ...all }
}

function refuseWithoutHandler(
  type: string,
  name: string,
  consumers: ReadonlyMap<string, object>,
  sources: ReadonlyMap<string, object>,
): void {
  const where = `createTxbox: subscriptions: the type '${oneLine(type)}' names '${oneLine(name)}'`
  if (sources.has(name)) {
    throw new InvalidOptionError(
      `${where}, which is a source: its messages come from a broker. Name local consumers only.`,
    )
  }
  const entry = consumers.get(name)
  if (entry === undefined) return
  const { handlers } = consumerOptions(name, entry)
  if (typeof handlers !== 'object' || handlers === null || Object.hasOwn(handlers, type)) return
  const types = Object.keys(handlers).map((known) => `'${oneLine(known)}'`)
  throw new InvalidOptionError(
    `${where}, whose consumer in this box has no handler for it: its messages would wait for ever. Correct the type, or add a ` +
      `handler; it has handlers for ${types.length === 0 ? nameOf(undefined) : types.join(', ')}.`,
  )
}
