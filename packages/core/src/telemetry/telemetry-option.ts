import { propertyOf } from '../errors/property-of.ts'
import type { OptionChecker } from '../options/options.ts'
import { GuardedTelemetry } from './guarded-telemetry.ts'
import type { SpanParent } from './processing-span.ts'
import type { Telemetry } from './telemetry.ts'

/** Where the telemetry of the process is registered: `globalThis[Symbol.for('txbox.telemetry')]`. */
export const telemetryKey: unique symbol = Symbol.for('txbox.telemetry') as never

/** Returns the telemetry in use. The function is called at each use, so that a telemetry may be registered at any time. */
export type FindTelemetry = () => GuardedTelemetry | undefined

const HOOKS = ['capture', 'span', 'count', 'record', 'observe'] as const

/** One guard for each telemetry, so that only its first mistake in the process is reported. */
const guards = new WeakMap<object, GuardedTelemetry>()
/** The registered telemetry that was found last, and its guard. */
let last: { readonly registered: unknown; readonly guard: GuardedTelemetry | undefined } | undefined

/**
 * Reads the option `telemetry`. Without this option, the telemetry of the process is looked up at each use.
 *
 * @throws {InvalidOptionError} for a value that is no telemetry.
 */
export function telemetryOption(check: OptionChecker, given: Telemetry | undefined): FindTelemetry {
  if (given === undefined) return registeredTelemetry
  if (!isTelemetry(given)) {
    throw check.wrong('telemetry', 'a Telemetry, such as openTelemetry() of @txbox/opentelemetry')
  }
  const guard = guardOf(given)
  return () => guard
}

/** @throws {InvalidOptionError} for any other value. */
export function spanParentOption(check: OptionChecker): SpanParent {
  return check.oneOf<SpanParent>('parent', ['message', 'link'], 'message')
}

/** The telemetry that is registered for the process. */
export function registeredTelemetry(): GuardedTelemetry | undefined {
  const registered = readRegistered()
  if (registered === undefined) return undefined
  if (last?.registered !== registered) {
    last = { registered, guard: isTelemetry(registered) ? guardOf(registered) : undefined }
    if (last.guard === undefined) {
      process.emitWarning(
        "globalThis[Symbol.for('txbox.telemetry')] is no Telemetry: a function is missing, or it cannot be read. There are no traces and metrics.",
        { type: 'TxboxWarning', code: 'TXBOX_TELEMETRY' },
      )
    }
  }
  return last.guard
}

/** In place of a registered telemetry whose property throws when it is read. */
const UNREADABLE = {}

function readRegistered(): unknown {
  try {
    return (globalThis as { readonly [telemetryKey]?: unknown })[telemetryKey]
  } catch {
    return UNREADABLE
  }
}

function guardOf(telemetry: Telemetry): GuardedTelemetry {
  const known = guards.get(telemetry)
  if (known !== undefined) return known
  const guard = new GuardedTelemetry(telemetry)
  guards.set(telemetry, guard)
  return guard
}

function isTelemetry(value: unknown): value is Telemetry {
  return HOOKS.every((hook) => typeof propertyOf(value, hook) === 'function')
}
