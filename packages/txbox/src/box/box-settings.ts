import { InvalidOptionError, isTxboxError, type Logger, type Publisher, type Telemetry } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import {
  LOCAL_CONSUMER_NAME,
  OptionChecker,
  connectedPortsOf,
  isLocalConsumerName,
  loggerOption,
  oneLine,
  propertyOf,
  telemetryOption,
  type FindTelemetry,
} from '@txbox/core/internal'
import { hours } from '@txbox/inbox'

const WHERE = 'createTxbox'

/** Parts of a box that have a name of their own. */
const PARTS: ReadonlySet<string> = new Set(['relay', 'gc'])

/** The options of a box that do not belong to one part, checked. Each part checks its own options. */
export interface BoxSettings {
  readonly ports: ConnectedPorts
  readonly consumers: ReadonlyMap<string, object>
  readonly sources: ReadonlyMap<string, object>
  readonly subscriptions: Readonly<Record<string, unknown>>
  readonly publisher: Publisher | undefined
  /** `undefined`: there is no relay. */
  readonly relay: object | undefined
  /** `undefined`: there is no collector. */
  readonly gc: object | undefined
  readonly migrate: boolean | 'unless-production'
  readonly allowPGlite: boolean
  readonly logger: Logger | false | undefined
  readonly telemetry: Telemetry | undefined
  readonly findTelemetry: FindTelemetry
  readonly stopTimeoutMs: number
  readonly signals: boolean
  readonly signal: AbortSignal | undefined
}

/** @throws {InvalidOptionError} for a missing, unknown or wrong option. */
export function checkBoxOptions(options: object): BoxSettings {
  const check = new OptionChecker(WHERE, options).known(
    ...[
      'database',
      'consumers',
      'subscriptions',
      'publisher',
      'sources',
      'unrouted',
      'notify',
      'migrate',
      'allowPGlite',
    ],
    ...['relay', 'gc', 'isolationLevel', 'logger', 'telemetry', 'stopTimeoutMs', 'signals', 'signal'],
  )
  const ports = connectedPortsOf(WHERE, propertyOf(options, 'database'))
  const publisher = propertyOf(options, 'publisher') as Publisher | undefined
  // The relay checks more of it, if there is a relay.
  if (publisher !== undefined && typeof propertyOf(publisher, 'publish') !== 'function') {
    throw check.wrong('publisher', 'a Publisher, such as publishEach(…) or the publisher of a broker package')
  }
  const telemetry = propertyOf(options, 'telemetry') as Telemetry | undefined
  const findTelemetry = telemetryOption(check, telemetry)
  const relay = partOption(check, options, 'relay')
  if (publisher === undefined && relay !== undefined && propertyOf(options, 'relay') !== undefined) {
    throw new InvalidOptionError(
      `${WHERE}: the option 'relay' needs the option 'publisher': where should it publish to?`,
    )
  }
  const consumers = entriesOption(check, options, 'consumers')
  const sources = entriesOption(check, options, 'sources')
  for (const name of sources.keys()) {
    if (consumers.has(name)) {
      throw new InvalidOptionError(
        `${WHERE}: '${oneLine(name)}' is a consumer and a source. Each part needs a name of its own.`,
      )
    }
  }
  return {
    ports,
    consumers,
    sources,
    subscriptions: subscriptionsOption(check, options),
    publisher,
    relay: publisher === undefined ? undefined : relay,
    gc: partOption(check, options, 'gc'),
    migrate: migrateOption(check, propertyOf(options, 'migrate')),
    allowPGlite: check.flag('allowPGlite', false),
    logger: loggerOption(check, propertyOf(options, 'logger') as never),
    telemetry,
    findTelemetry,
    stopTimeoutMs: check.milliseconds('stopTimeoutMs', { min: 0, max: hours(1), default: 25_000 }),
    signals: check.flag('signals', false),
    signal: check.signal('signal'),
  }
}

/** Runs what creates a part, and names the part in the error of a wrong option. */
export function creating<R>(part: string, create: () => R): R {
  try {
    return create()
  } catch (error) {
    if (!isTxboxError(error) || error.code !== 'TXBOX_INVALID_OPTION') throw error
    throw new InvalidOptionError(`${WHERE}, ${part}: ${error.message}`, { cause: error })
  }
}

function entriesOption(
  check: OptionChecker,
  options: object,
  option: 'consumers' | 'sources',
): ReadonlyMap<string, object> {
  const entries = propertyOf(options, option) ?? {}
  // A Map or a list has no names of its own: what is in it would be lost.
  if (Object.prototype.toString.call(entries) !== '[object Object]') {
    throw check.wrong(option, `a plain object of names and ${option}`)
  }
  const found = new Map<string, object>()
  for (const [name, entry] of Object.entries(entries) as [string, unknown][]) {
    const inOption = new OptionChecker(`${WHERE}: ${option}`, entries)
    if (!isLocalConsumerName(name)) {
      throw new InvalidOptionError(
        `${WHERE}: the names in the option '${option}' must be ${LOCAL_CONSUMER_NAME}, not '${oneLine(name)}'.`,
      )
    }
    if (PARTS.has(name)) {
      throw new InvalidOptionError(
        `${WHERE}: ${option}: '${name}' is the name of another part of a box. Choose another one.`,
      )
    }
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
      throw inOption.wrong(
        name,
        option === 'consumers'
          ? "an object of handlers by type, such as { 'order.placed': async (tx, message) => {} }"
          : 'an object with a source and handlers',
      )
    }
    found.set(name, entry)
  }
  return found
}

function partOption(check: OptionChecker, options: object, option: 'relay' | 'gc'): object | undefined {
  const given = propertyOf(options, option) ?? {}
  if (given === false) return undefined
  if (typeof given !== 'object' || Array.isArray(given))
    throw check.wrong(option, 'false or an object of options')
  for (const ours of ['database', 'publisher', 'signal']) {
    if (propertyOf(given, ours) === undefined) continue
    throw new InvalidOptionError(
      `${WHERE}: ${option}: the option '${ours}' is that of the box. Pass it to createTxbox.`,
    )
  }
  return given
}

function subscriptionsOption(check: OptionChecker, options: object): Readonly<Record<string, unknown>> {
  const given = propertyOf(options, 'subscriptions') ?? {}
  if (Object.prototype.toString.call(given) !== '[object Object]') {
    throw check.wrong(
      'subscriptions',
      'a plain object of types and their lists of consumers; those that are registered get their messages anyway',
    )
  }
  return given as Readonly<Record<string, unknown>>
}

function migrateOption(check: OptionChecker, migrate: unknown): BoxSettings['migrate'] {
  if (migrate === undefined) return 'unless-production'
  if (typeof migrate === 'boolean' || migrate === 'unless-production') return migrate
  throw check.wrong('migrate', "true, false or 'unless-production'")
}
