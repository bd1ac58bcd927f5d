import { LIMITS, days, hours } from '@txbox/core'
import { nameOf, propertyOf, type OptionChecker } from '@txbox/core/internal'
import type { HttpRequest } from '../request/http-request.ts'
import type { IdempotencyOptions } from './idempotency.ts'
import type { Seal } from '../response/seal.ts'
import { REPLAYED_HEADERS, mayBeReplayed, type StoredForm } from '../response/stored-response.ts'

const MIB = 1_048_576
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

export interface IdempotencySettings {
  readonly name: string
  readonly methods: ReadonlySet<string>
  readonly required: boolean
  readonly retentionMs: number
  readonly timeoutMs: number
  readonly key: ((request: HttpRequest) => unknown) | undefined
  readonly tenant: ((request: HttpRequest) => unknown) | undefined
  readonly fingerprint: ((request: HttpRequest) => unknown) | undefined
  /** 0: a request does not wait. */
  readonly waitMs: number
  readonly maxKeyCharacters: number
  readonly maxRequestBytes: number
  readonly keep: (status: number) => boolean
  readonly form: StoredForm
  readonly documentation: string | undefined
}

export function idempotencySettings(check: OptionChecker, options: IdempotencyOptions): IdempotencySettings {
  return {
    name: check.text('name', { max: LIMITS.consumerCharacters, default: 'http' }),
    methods: methodsOf(check),
    required: check.flag('required', true),
    retentionMs: check.milliseconds('retentionMs', { min: 60_000, max: days(3650), default: days(1) }),
    timeoutMs: check.milliseconds('timeoutMs', { min: 100, max: hours(1), default: 30_000 }),
    key: check.callback('key'),
    tenant: check.callback('tenant'),
    fingerprint: check.callback('fingerprint'),
    waitMs: waitOf(check, options.whileInFlight),
    maxKeyCharacters: check.integer('maxKeyCharacters', { min: 1, max: 1000, default: 255 }),
    maxRequestBytes: check.integer('maxRequestBytes', { min: 1, max: 64 * MIB, default: MIB }),
    keep: check.callback<(status: number) => boolean>('keep') ?? ((status) => status < 500),
    form: {
      maxBytes: check.integer('maxResponseBytes', { min: 1, max: MIB, default: MIB / 4 }),
      replayed: replayedOf(check),
      seal: sealOf(check, options.seal),
    },
    documentation: documentationOf(check, options.documentation),
  }
}

function methodsOf(check: OptionChecker): ReadonlySet<string> {
  const expected = 'a list of methods in capitals, such as POST'
  const isMethod = (value: unknown): value is string => typeof value === 'string' && /^[A-Z]+$/.test(value)
  const given = check.list('methods', isMethod, expected)
  return new Set(given.length === 0 ? ['POST', 'PATCH'] : given)
}

function waitOf(check: OptionChecker, given: IdempotencyOptions['whileInFlight']): number {
  if (given === undefined || given === 'refuse') return 0
  const waitMs = propertyOf(given, 'waitMs')
  if (typeof waitMs === 'number' && waitMs >= 1 && waitMs <= 600_000) return waitMs
  throw check.wrong('whileInFlight', "'refuse' or { waitMs } with 1 to 600000 milliseconds")
}

function replayedOf(check: OptionChecker): ReadonlySet<string> {
  const isHeader = (value: unknown): value is string =>
    typeof value === 'string' && TOKEN.test(value) && mayBeReplayed(value)
  const expected = 'a list of names of headers, without Set-Cookie and those of a connection'
  const given = check.list('replayHeaders', isHeader, expected)
  return new Set([...REPLAYED_HEADERS, ...given.map((name) => name.toLowerCase())])
}

function sealOf(check: OptionChecker, seal: unknown): Seal | undefined {
  if (seal === undefined) return undefined
  const isSeal = ['seal', 'open'].every((name) => typeof propertyOf(seal, name) === 'function')
  if (!isSeal) throw check.wrong('seal', 'an object with the functions seal and open')
  return seal as Seal
}

function documentationOf(check: OptionChecker, given: unknown): string | undefined {
  if (given === undefined) return undefined
  if (typeof given !== 'string' || !URL.canParse(given) || !/^[!-;=?-~]+$/.test(given)) {
    throw check.wrong('documentation', `an absolute URL, not ${nameOf(given)}`)
  }
  return given
}
