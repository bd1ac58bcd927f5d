import * as fc from 'fast-check'

/** A text in every generated payload, which must never appear in an error or a log. */
export const SECRET = 'correct-horse-battery-staple'

/** The error of a hostile getter, trap or `toJSON`. It may reach the caller unchanged, because the caller threw it. */
export class Tripwire extends Error {
  constructor() {
    super('tripwire')
    this.name = 'Tripwire'
  }
}

const trip = (): never => {
  throw new Tripwire()
}

const ODD_TEXTS: readonly string[] = [
  '',
  ' ',
  '0',
  '\0',
  'a\0b',
  '\n',
  '\r\n2026-01-01 ERROR forged',
  '\u001B]0;owned\u0007\u001B[2J',
  '\u009B31m',
  '\u202Egpj.exe',
  '\u2028\u2029\uFEFF',
  '\uD800',
  'a\uDC00b',
  '\u{1F680}'.repeat(300),
  'e\u0301',
  '\u00E9',
  'A1',
  'a1',
  'a1 ',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'valueOf',
  'length',
  'then',
  'null',
  'undefined',
  'NaN',
  'true',
  '{}',
  '[]',
  '["a","b"]',
  'sha256:0',
  '$1',
  '?',
  ':name',
  '%s%d%j',
  "'; drop table txbox.outbox; --",
  '"',
  '`',
  '\\',
  '/*',
  '--',
  '../../etc/passwd',
  '/a~1b/~0',
  '-1',
  '1e400',
  '9'.repeat(400),
  'postgres://user:s3cr3t@127.0.0.1:9/db',
  'x'.repeat(255),
  'x'.repeat(256),
  '\u00FC'.repeat(255),
  'x'.repeat(100_000),
  `${'x'.repeat(5000)}://host/`,
  `${'x'.repeat(100)}${' '.repeat(300)}`,
  '\u001B'.repeat(5000),
]

/** Text of any kind: with control characters, lone surrogates, names that objects have, and of any length. */
export function hostileText(): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...ODD_TEXTS) },
    { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
    { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 300 }) },
    {
      weight: 1,
      arbitrary: fc
        .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 })
        .map((units) => String.fromCharCode(...units)),
    },
    { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...ODD_TEXTS), fc.string()).map((two) => two.join('')) },
  )
}

/** Text that every database and broker can hold: 1 to `max` characters, no NUL, no lone surrogate. */
export function storableText(max = 255): fc.Arbitrary<string> {
  return hostileText().map((text) => {
    const kept = text.replaceAll('\0', '').toWellFormed().slice(0, max).toWellFormed()
    return kept === '' ? 'x' : kept
  })
}

const cycle: Record<string, unknown> = { secret: SECRET }
cycle['self'] = cycle

const polluting: unknown = JSON.parse(
  `{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"secret":"${SECRET}"}`,
)

/** Each value is created for its case, so that no case sees changes of another case. */
const MAKERS: readonly (() => unknown)[] = [
  () => polluting,
  () => cycle,
  () => Object.create(null) as unknown,
  () => Object.assign(Object.create(null) as object, { secret: SECRET, id: 'x', topic: 't' }),
  () => new Proxy({}, { get: trip, has: trip, ownKeys: trip, getPrototypeOf: trip }),
  () => new Proxy({}, { getPrototypeOf: trip }),
  () => new Proxy(['a'], { get: trip }),
  () => new Proxy(() => undefined, { get: trip, apply: trip }),
  () => new Proxy({ id: 'x' }, { ownKeys: () => [] }),
  () => revoked({}),
  () => revoked([]),
  () =>
    Object.defineProperty({}, 'secret', {
      enumerable: true,
      get: trip,
    }),
  () => ({ toJSON: trip }),
  () => ({ toJSON: () => undefined }),
  () => ({ toJSON: () => 1n }),
  () => ({ toString: trip, valueOf: trip, [Symbol.toPrimitive]: trip }),
  () => ({ then: trip }),
  () => ({ message: 7, code: Symbol('c'), name: {} }),
  () => Object.assign(new Error(SECRET.slice(0, 3)), { cause: cycle, errors: [cycle, null] }),
  () => Object.create(Date.prototype) as unknown,
  () => new Date(Number.NaN),
  () => new Date(8.64e15),
  () => new Date(-8.64e15),
  // oxlint-disable-next-line no-array-constructor, unicorn/no-new-array -- holes are intended
  () => new Array(3),
  () => Object.assign(['a', 'b'], { toJSON: () => SECRET }),
  // oxlint-disable-next-line no-new-wrappers -- a boxed string is intended
  () => new String('boxed'),
  // oxlint-disable-next-line no-new-wrappers -- a boxed number is intended
  () => new Number(7),
  () => nested(10_000),
  () => Object.fromEntries(Array.from({ length: 2000 }, (_, n) => [`m${n}`, n])),
  () => Buffer.alloc(0),
  () => Buffer.from([0xff, 0x00, 0xfe]),
  () => new SharedArrayBuffer(4),
  () => new DataView(new ArrayBuffer(4)),
  () => Symbol('s'),
  () => () => SECRET,
  () => 10n ** 400n,
  () => -0,
  () => 2 ** 53,
  () => 1.5,
  () => Infinity,
  () => instanceOfClassNamed(7),
  () => instanceOfClassNamed(() => SECRET),
  () => ({ constructor: { name: '\u001B[2J'.repeat(10_000) } }),
  () => new Map([['a', SECRET]]),
  () => new Headers({ a: SECRET }),
  () => new AbortController().signal,
  () => Promise.resolve(SECRET),
  () => new WeakMap(),
  () => /x/g,
]

/** A class may have a static member called `name`, of any kind. */
function instanceOfClassNamed(name: unknown): unknown {
  class Odd {
    readonly secret = SECRET
  }
  Object.defineProperty(Odd, 'name', { value: name })
  return new Odd()
}

function nested(levels: number): unknown {
  return JSON.parse('['.repeat(levels) + ']'.repeat(levels))
}

function revoked<T extends object>(target: T): T {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

/**
 * The number of a value that misbehaves when it is read: the library that generates and prints the cases reads
 * values too. `fuzz` replaces the number by the value.
 */
class Misbehaving {
  readonly #index: number

  constructor(index: number) {
    this.#index = index
  }

  made(): unknown {
    return MAKERS[this.#index]!()
  }

  [fc.toStringMethod](): string {
    return `made(${String(MAKERS[this.#index])})`
  }
}

function misbehaving(): fc.Arbitrary<unknown> {
  return fc.nat(MAKERS.length - 1).map((index) => new Misbehaving(index))
}

/** A generated case with the misbehaving values themselves in it. */
export function made<T>(value: T): T {
  return replaced(value) as T
}

function replaced(value: unknown): unknown {
  if (value instanceof Misbehaving) return value.made()
  if (Array.isArray(value)) return holds(value) ? value.map(replaced) : value
  if (!isPlain(value) || !holds(value)) return value
  return withOwnMembers(Object.entries(value).map(([name, member]) => [name, replaced(member)]))
}

function holds(value: unknown): boolean {
  if (value instanceof Misbehaving) return true
  return (Array.isArray(value) || isPlain(value)) && Object.values(value).some(holds)
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

/** Any value that a program in JavaScript can pass, whatever the types say. */
export function anything(): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 2, arbitrary: hostileText() },
    { weight: 2, arbitrary: misbehaving() },
    { weight: 1, arbitrary: fc.constantFrom(undefined, null, true, false, 0, 1, -1, Number.NaN) },
    {
      weight: 1,
      arbitrary: fc.anything({
        withBigInt: true,
        withDate: true,
        withMap: true,
        withSet: true,
        withNullPrototype: true,
        withTypedArray: true,
        withSparseArray: true,
        withBoxedValues: true,
        withObjectString: true,
        maxDepth: 2,
      }),
    },
  )
}

/** A value that JSON can represent, with hostile names and texts, and the secret in it. */
export function hostileJson(): fc.Arbitrary<unknown> {
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      hostileText(),
      fc.double(),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('value'), { maxLength: 3 }),
      fc
        .array(fc.tuple(hostileText(), tie('value')), { maxLength: 3 })
        .map((members) => withOwnMembers([...members, ['secret', SECRET]])),
    ),
  }))
  return value
}

/** Each name is a member of the object itself, `__proto__` too. */
export function withOwnMembers<V>(members: readonly (readonly [string, V])[]): Record<string, V> {
  return Object.fromEntries(members)
}

/** An object whose named members are valid or hostile, with or without unknown members. */
export function hostileRecord(
  good: Readonly<Record<string, fc.Arbitrary<unknown>>>,
): fc.Arbitrary<Record<string, unknown>> {
  const members = Object.entries(good).map(([name, value]) =>
    fc.oneof(
      { weight: 6, arbitrary: fc.tuple(fc.constant(name), value) },
      { weight: 1, arbitrary: fc.tuple(fc.constant(name), anything()) },
      { weight: 3, arbitrary: fc.constant(undefined) },
    ),
  )
  const more = fc.oneof(
    { weight: 9, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.tuple(hostileText(), anything()) },
  )
  return fc.tuple(...members, more).map((all) => withOwnMembers(all.filter((member) => member !== undefined)))
}
