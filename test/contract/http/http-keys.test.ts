import { expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import {
  IdempotencyUnderTest,
  isReplayed,
  textOf,
  withKey,
} from '../../support/subjects/idempotency-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

test('H4 a key in double quotes and the same key without them are one key', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  await subject.handle(withKey('8e03978e-40d5-43e8-bc93-6894a57f9324'))
  for (const key of ['"8e03978e-40d5-43e8-bc93-6894a57f9324"', ' 8e03978e-40d5-43e8-bc93-6894a57f9324\t']) {
    expect(isReplayed(await subject.handle(withKey(key)))).toBe(true)
  }
  await subject.handle(withKey(String.raw`"a \"b\" \\"`))
  expect(subject.calls).toBe(2)
})

test.for<[string, string | readonly string[] | undefined]>([
  ['no key', undefined],
  ['an empty key', ''],
  ['an empty String', '""'],
  ['white space', ' \t'],
  ['two lines', ['a', 'a']],
  ['two lines that a server has joined', '"a", "b"'],
  ['two tokens', 'a, b'],
  ['a String without its end', '"a'],
  ['a String with parameters', '"a";b=1'],
  ['a backslash before another character', String.raw`"a\b"`],
  ['characters beyond ASCII', 'kä'],
  ['256 characters', 'x'.repeat(256)],
  ['256 characters in quotes', `"${'x'.repeat(256)}"`],
])('H4 %s is a 400, and the handler does not run', async ([, key]) => {
  const subject = new IdempotencyUnderTest(target, root)
  const response = await subject.handle(key === undefined ? { headers: {} } : withKey(key))
  expect(response.status).toBe(400)
  expect(response.headers?.['content-type']).toBe('application/problem+json')
  expect(subject.calls).toBe(0)
})

test('H4 the header is found in any case, and in the Headers of fetch', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  await subject.handle({ headers: { 'Idempotency-Key': ['k1'], 'Content-Type': 'application/json' } })
  const headers = new Headers({ 'idempotency-key': 'k1', 'content-type': 'application/json' })
  expect(isReplayed(await subject.handle({ headers }))).toBe(true)
  headers.append('idempotency-key', 'k1')
  expect((await subject.handle({ headers })).status).toBe(400)
  expect((await subject.handle(withKey('x'.repeat(255)))).status).toBe(201)
})

test('H4 the header is found in the Headers that a library brings', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  const given = new Headers(withKey('k1').headers as Record<string, string>)
  const headers = { get: (name: string) => given.get(name) } as Headers
  expect((await subject.handle({ headers })).status).toBe(201)
  expect(isReplayed(await subject.handle())).toBe(true)
})

test('H5 name, method, path, tenant and key are separate parts of a scope, and the query is not one', async () => {
  let tenant = 'a'
  const subject = new IdempotencyUnderTest(target, root, { tenant: () => tenant })
  const other = new IdempotencyUnderTest(target, root, { name: `${subject.name}2`, tenant: () => tenant })
  const fresh = async (one: IdempotencyUnderTest, request: object = {}): Promise<void> => {
    const response = await one.handle(request)
    expect([response.status, isReplayed(response)]).toEqual([201, false])
    expect(isReplayed(await one.handle(request))).toBe(true)
  }
  await fresh(subject)
  await fresh(other)
  await fresh(subject, { method: 'PATCH' })
  await fresh(subject, { path: '/orders/k1' })
  await fresh(subject, withKey('k2'))
  tenant = 'b'
  await fresh(subject)
  // The parts of the key could be read in two ways if they were joined.
  tenant = 'c'
  await fresh(subject, { ...withKey('"d e"'), path: '/x' })
  tenant = 'c d'
  await fresh(subject, { ...withKey('e'), path: '/x' })
  tenant = 'a'
  expect((await subject.handle({ path: '/orders?page=2' })).status).toBe(422)
  const untenanted = new IdempotencyUnderTest(target, root, { name: subject.name })
  await fresh(untenanted)
})

test.for<[string, object, object, number]>([
  ['members in another order', {}, { body: Buffer.from('{ "n": 2, "sku": "A1" }') }, 201],
  ['a number in another form', {}, { body: Buffer.from('{"sku":"A1","n":2.0e0}') }, 201],
  ['a parsed body', {}, { body: new Uint8Array(), parsedBody: { n: 2, sku: 'A1' } }, 201],
  ['another value', {}, { body: Buffer.from('{"sku":"A1","n":3}') }, 422],
  ['another value in a parsed body', {}, { body: new Uint8Array(), parsedBody: { n: 3, sku: 'A1' } }, 422],
  ['no body', {}, { body: new Uint8Array() }, 422],
  ['another query', { path: '/orders?a=1' }, { path: '/orders?a=2' }, 422],
  ['1 and -0', { body: Buffer.from('[0]') }, { body: Buffer.from('[-0]') }, 201],
  [
    'numbers beyond 2^53 that a parser makes equal',
    { body: Buffer.from('[9007199254740993]') },
    { body: Buffer.from('[9007199254740992]') },
    422,
  ],
  [
    'fractions that a parser makes equal',
    { body: Buffer.from('[0.10000000000000000001]') },
    { body: Buffer.from('[0.1]') },
    422,
  ],
  ['numbers beyond all bounds', { body: Buffer.from('[1e400]') }, { body: Buffer.from('[1e401]') }, 422],
  [
    'a member twice',
    { body: Buffer.from('{"a":1,"a":2}') },
    { body: Buffer.from(String.raw`{"a":3,"\u0061":2}`) },
    422,
  ],
  [
    'lone surrogates',
    { body: Buffer.from(String.raw`["\ud800"]`) },
    { body: Buffer.from(String.raw`["\ud801"]`) },
    422,
  ],
  [
    'bytes that are no UTF-8',
    { body: Buffer.from([0x22, 0xff, 0x22]) },
    { body: Buffer.from([0x22, 0xfe, 0x22]) },
    422,
  ],
  [
    'a suffix of JSON',
    { headers: { 'idempotency-key': 'k1', 'content-type': 'application/merge-patch+json; charset=utf-8' } },
    {
      headers: { 'idempotency-key': 'k1', 'content-type': 'application/merge-patch+json' },
      body: Buffer.from('{"n":2,"sku":"A1"}'),
    },
    201,
  ],
  [
    'text, byte for byte',
    { headers: { 'idempotency-key': 'k1', 'content-type': 'text/plain' } },
    {
      headers: { 'idempotency-key': 'k1', 'content-type': 'text/plain' },
      body: Buffer.from('{"n":2,"sku":"A1"}'),
    },
    422,
  ],
])('H6 %s', async ([, first, second, status]) => {
  const subject = new IdempotencyUnderTest(target, root)
  expect((await subject.handle(first)).status).toBe(201)
  expect((await subject.handle(second)).status).toBe(status)
  expect([subject.calls, await subject.effects()]).toEqual([1, 1])
})

test('H6 the option fingerprint replaces the comparison', async () => {
  const subject = new IdempotencyUnderTest(target, root, {
    fingerprint: ({ body }) => Buffer.from(body).toString().slice(0, 2),
  })
  await subject.handle()
  expect(isReplayed(await subject.handle({ body: Buffer.from('{"other":1}'), path: '/orders?x' }))).toBe(true)
  expect((await subject.handle({ body: Buffer.from('[]') })).status).toBe(422)
})

test('H6 a parsed body whose bytes are needed is a 500 that says so, and one without a canonical form a 400', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  const form = { 'idempotency-key': 'k1', 'content-type': 'multipart/form-data; boundary=x' }
  const response = await subject.handle({ headers: form, body: new Uint8Array(), parsedBody: { a: '1' } })
  expect(response.status).toBe(500)
  expect(String(subject.errors[0])).toContain('bytes are needed')
  let deep: unknown = 1
  for (let level = 0; level < 5000; level++) deep = [deep]
  for (const parsedBody of [deep, { a: ['\ud800'] }]) {
    expect((await subject.handle({ body: new Uint8Array(), parsedBody })).status).toBe(400)
  }
  expect(subject.errors.length).toBe(1)
  // A client cannot send what is no JSON: the parser of the server has made it.
  for (const parsedBody of [{ n: 1n }, new Map()]) {
    expect((await subject.handle({ body: new Uint8Array(), parsedBody })).status).toBe(500)
  }
  expect([subject.calls, subject.errors.length]).toEqual([0, 3])
})

test('H6 a parser that makes null of the JSON text null has parsed it', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  expect((await subject.handle({ body: new Uint8Array(), parsedBody: null })).status).toBe(201)
  expect(isReplayed(await subject.handle({ body: Buffer.from('null') }))).toBe(true)
})

test('H28 a tenant that is missing or throws is a 500 problem, and nothing runs', async () => {
  for (const tenant of [() => undefined, () => '', () => null as never, () => 7 as never, () => fail()]) {
    const subject = new IdempotencyUnderTest(target, root, { tenant })
    const response = await subject.handle()
    expect([response.status, subject.calls, subject.errors.length]).toEqual([500, 0, 1])
    expect(textOf(response)).not.toContain('session')
    // The tenant is asked only where there is a key, after the refusals.
    expect((await subject.handle({ method: 'GET' })).status).toBe(201)
    expect((await subject.handle({ headers: {} })).status).toBe(400)
  }
  const missing = new IdempotencyUnderTest(target, root, { tenant: () => undefined })
  await missing.handle()
  expect(missing.errors[0]).toBeInstanceOf(InvalidOptionError)
})

function fail(): never {
  throw new Error('no session')
}

test('H16 the idempotency key of the handler is the same for each attempt, and differs for all other requests', async () => {
  let tenant = 'a'
  const subject = new IdempotencyUnderTest(target, root, {
    tenant: () => tenant,
    keep: (status) => status < 400,
  })
  const keyOf = async (request: object = {}): Promise<string> => {
    let key: string | undefined
    await subject.handle(request, (_, about) => {
      key = about.idempotencyKey
      expect(about.key).toBe('k1')
      return { status: 502 }
    })
    return key!
  }
  const first = await keyOf()
  expect(first).toMatch(/^[0-9a-f]{64}$/)
  expect(await keyOf()).toBe(first)
  expect(await keyOf({ body: Buffer.from('{}') })).toBe(first)
  const others = [await keyOf({ path: '/x' }), await keyOf({ method: 'PATCH' })]
  tenant = 'b'
  others.push(await keyOf())
  expect(new Set([first, ...others]).size).toBe(4)
})

test('H18 other methods pass, with the header and without, and store nothing', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'post']) {
    for (const headers of [{}, { 'idempotency-key': ['a', 'b'] }]) {
      const response = await subject.handle({ method, headers }, async (tx, about) => {
        expect(about).toEqual({ signal: expect.any(AbortSignal) as unknown })
        return subject.create(tx, about)
      })
      expect([response.status, isReplayed(response)]).toEqual([201, false])
    }
  }
  expect(await subject.effects()).toBe(12)
  const put = new IdempotencyUnderTest(target, root, { methods: ['PUT'] })
  await put.handle({ method: 'PUT' })
  expect(isReplayed(await put.handle({ method: 'PUT' }))).toBe(true)
})

test('the option key takes the key from elsewhere, and the header does not count then', async () => {
  const subject = new IdempotencyUnderTest(target, root, {
    key: ({ body }) => (JSON.parse(Buffer.from(body).toString()) as { id?: string }).id,
  })
  const body = (text: string) => ({ ...withKey(['two', 'lines']), body: Buffer.from(text) })
  await subject.handle(body('{"id":"ä b"}'))
  expect(isReplayed(await subject.handle(body('{ "id": "ä b" }')))).toBe(true)
  for (const wrong of [
    '{}',
    '{"id":""}',
    '{"id":7}',
    `{"id":"${'x'.repeat(256)}"}`,
    String.raw`{"id":"\ud800"}`,
  ]) {
    expect((await subject.handle(body(wrong))).status).toBe(400)
  }
  expect((await subject.handle(body('no JSON'))).status).toBe(500)
  expect([subject.calls, subject.errors.length]).toEqual([1, 1])
})

test('a request body over the limit is a 413, and only where a key counts', async () => {
  const subject = new IdempotencyUnderTest(target, root, { maxRequestBytes: 10, required: false })
  expect((await subject.handle()).status).toBe(413)
  expect((await subject.handle({ headers: {} })).status).toBe(201)
  expect((await subject.handle({ body: Buffer.from('{"n":1000}') })).status).toBe(201)
})
