import { setTimeout } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import type { HttpResponse } from '@txbox/idempotency-key'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { IdempotencyUnderTest, isReplayed, textOf } from '../../support/subjects/idempotency-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const kind = mainKind(target)
const root = useRoot(target, kind)
const KEYED = { 'idempotency-key': 'k1' }

test.for<[string, HttpResponse]>([
  ['text', { status: 201, body: 'Grüße \0 🎉 \ufeff' }],
  ['bytes that are no text', { status: 200, body: Buffer.from([0, 255, 128, 10, 13]) }],
  ['a byte order mark', { status: 200, body: Buffer.from('\ufeff{}') }],
  ['a part of a larger buffer', { status: 200, body: Buffer.from('abcdef').subarray(2, 4) }],
  ['nothing', { status: 204 }],
  ['null', { status: 200, body: null }],
  ['a refusal', { status: 409, headers: { 'Content-Type': 'text/plain' }, body: 'sold out' }],
])('H7 a replay is the same to the byte: %s', async ([, response]) => {
  const subject = new IdempotencyUnderTest(target, root)
  const first = await subject.handle({}, () => response)
  expect(first.headers).not.toHaveProperty('idempotent-replayed')
  const replay = await subject.handle()
  expect([replay.status, isReplayed(replay)]).toEqual([response.status, true])
  expect(Buffer.from(replay.body as Uint8Array)).toEqual(Buffer.from(first.body as Uint8Array))
  expect(Buffer.from(first.body as Uint8Array)).toEqual(Buffer.from((response.body ?? '') as Uint8Array))
  expect(subject.calls).toBe(0)
})

test('H8 headers of a message, a connection or a client are not replayed, and others only if they are named', async () => {
  const subject = new IdempotencyUnderTest(target, root, { replayHeaders: ['X-Order'] })
  const headers = {
    ...{ 'Content-Type': 'application/json', 'Content-Language': 'de', 'Content-Location': '/o/1' },
    ...{
      Location: '/o/1',
      ETag: '"1"',
      Link: ['</a>; rel="a"', '</b>; rel="b"'],
      'Content-Encoding': 'gzip',
    },
    ...{ 'Cache-Control': 'private', 'x-order': '1' },
  }
  const never = {
    ...{
      'Set-Cookie': ['session=secret', 'b=2'],
      Date: 'now',
      Connection: 'close',
      'Keep-Alive': 'timeout=5',
    },
    ...{ 'Transfer-Encoding': 'chunked', 'Content-Length': '2', Trailer: 'x', Upgrade: 'h2c' },
    ...{ 'Proxy-Authenticate': 'Basic', 'X-Request-Id': '77' },
  }
  await subject.handle({}, () => ({ status: 200, headers: { ...headers, ...never }, body: '{}' }))
  const replay = await subject.handle()
  const lower = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  )
  expect(replay.headers).toEqual({ ...lower, 'idempotent-replayed': 'true' })
  const inbox = target.outboxTable.replace('outbox', 'inbox')
  const [claim] = await target.sql(`select result from ${inbox} order by processed_at desc limit 1`)
  expect(String(claim?.['result'])).not.toMatch(/secret|cookie|77/i)
})

test('H21 a replay without a stored Cache-Control must not be cached', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  await subject.handle()
  expect((await subject.handle()).headers).toMatchObject({ 'cache-control': 'no-store' })
})

test('H2 the response is not there before its record is committed', async () => {
  const { proxy, through } = await rootThroughProxy(target, kind)
  const subject = new IdempotencyUnderTest(target, through)
  await subject.handle({ path: '/warm' })
  const held = proxy.hold(/commit/i)
  let answered = false
  const answer = subject.handle().then((response) => {
    answered = true
    return response
  })
  await held.reached
  await setTimeout(50)
  expect([answered, await subject.effects()]).toEqual([false, 1])
  held.letGo()
  expect((await answer).status).toBe(201)
  expect(await subject.effects()).toBe(2)
})

for (const when of ['cutBefore', 'cutAfter'] as const) {
  test(`H19 a COMMIT whose answer is lost (${when}) is a 503, and the next request runs or is a replay, as the database decides`, async () => {
    const { proxy, through } = await rootThroughProxy(target, kind)
    const subject = new IdempotencyUnderTest(target, through)
    await subject.handle({ path: '/warm' })
    proxy[when](/commit/i)
    const lost = await subject.handle()
    expect([lost.status, lost.headers?.['retry-after']]).toEqual([503, '1'])
    expect(subject.errors.length).toBe(1)
    const next = await subject.handle()
    expect([next.status, isReplayed(next)]).toEqual([201, when === 'cutAfter'])
    expect(await subject.effects()).toBe(2)
  })
}

test('a database that cannot be reached is a 503, before the handler and in it, and nothing is stored', async () => {
  const { proxy, through } = await rootThroughProxy(target, kind)
  const subject = new IdempotencyUnderTest(target, through)
  await subject.handle({ path: '/warm' })
  proxy.cutBefore(/insert into \S*effects/i)
  expect((await subject.handle()).status).toBe(503)
  await proxy.close()
  const response = await subject.handle()
  expect([response.status, response.headers?.['content-type']]).toEqual([503, 'application/problem+json'])
  expect(await subject.effects()).toBe(1)
})

test('H13 a handler that hangs gets 503 at timeoutMs, another request takes over at once, and what it does later changes nothing', async () => {
  const subject = new IdempotencyUnderTest(target, root, { timeoutMs: 300 })
  const late = Promise.withResolvers<void>()
  let reason: unknown
  let ended: Promise<unknown> | undefined
  const startedAt = performance.now()
  const hanging = await subject.handle({}, async (tx, about) => {
    const response = await subject.create(tx, about)
    about.signal.addEventListener('abort', () => (reason = about.signal.reason))
    ended = late.promise.then(() => subject.create(tx, about)).catch(() => undefined)
    await ended
    return response
  })
  expect(performance.now() - startedAt).toBeLessThan(2000)
  expect(hanging.status).toBe(503)
  expect(reason).toMatchObject({ code: 'TXBOX_HANDLE_TIMEOUT' })
  expect(subject.errors).toEqual([reason])
  const next = await subject.handle()
  expect([next.status, isReplayed(next)]).toEqual([201, false])
  late.resolve()
  await ended
  expect(await subject.effects()).toBe(1)
  expect(textOf(await subject.handle())).toBe('{"order":2}')
})

test.for<[string, unknown]>([
  ['a body that is too large', { status: 200, body: 'x'.repeat(1001) }],
  ['a body that is an object', { status: 200, body: { a: 1 } }],
  ['a stream', { status: 200, body: new ReadableStream() }],
  ['no response', undefined],
  ['no status', { body: 'x' }],
  ['a status of no final response', { status: 101 }],
  ['a header with a line break', { status: 200, headers: { location: '/a\r\nset-cookie: b' } }],
  ['a header with NUL', { status: 200, headers: { 'x-not-stored': 'a\0' } }],
  ['a header above U+00FF', { status: 200, headers: { etag: '"Ā"' } }],
  ['a name of a header with a space', { status: 200, headers: { 'a b': 'c' } }],
])('H14 %s is rolled back, a 500 problem, and reported', async ([, response]) => {
  const subject = new IdempotencyUnderTest(target, root, { maxResponseBytes: 1000 })
  const failed = await subject.handle({}, async (tx, about) => {
    await subject.create(tx, about)
    return response as HttpResponse
  })
  expect([failed.status, failed.headers?.['content-type']]).toEqual([500, 'application/problem+json'])
  expect([await subject.effects(), subject.errors.length]).toEqual([0, 1])
  expect(subject.errors[0]).toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
  expect(String(subject.errors[0])).not.toContain('set-cookie')
  const next = await subject.handle()
  expect([next.status, isReplayed(next)]).toEqual([201, false])
})

test('H9 H14 a body that is too large is a 500 problem, also if keep declines its status', async () => {
  const subject = new IdempotencyUnderTest(target, root, { maxResponseBytes: 1000, required: false })
  const large = (status: number) => ({ status, body: 'x'.repeat(1001) })
  const declined = await subject.handle({}, () => large(502))
  expect([declined.status, declined.headers?.['content-type']]).toEqual([500, 'application/problem+json'])
  expect(subject.errors.length).toBe(1)
  // Without a key, nothing is stored, and any length is sent.
  for (const status of [200, 502]) {
    const plain = await subject.handle({ headers: {} }, () => large(status))
    expect([plain.status, textOf(plain).length]).toEqual([status, 1001])
  }
})

test('a 503 promises one effect only to a request with a key', async () => {
  const subject = new IdempotencyUnderTest(target, root, { required: false })
  const conflict = Object.assign(new Error('deadlock'), { code: '40P01', errno: 1213 })
  const fail = (): never => {
    throw conflict
  }
  const [keyed, plain] = [await subject.handle({}, fail), await subject.handle({ headers: {} }, fail)]
  expect([keyed.status, plain.status, plain.headers?.['retry-after']]).toEqual([503, 503, '1'])
  expect(textOf(keyed)).toContain('with the same idempotency key: it takes effect once')
  expect(textOf(plain)).toContain('may take effect twice')
  expect(subject.errors.length).toBe(2)
})

test('H17 problems have the form of RFC 9457, and neither the key nor the body', async () => {
  for (const documentation of [undefined, 'https://example.com/idempotency']) {
    const subject = new IdempotencyUnderTest(target, root, { documentation, maxRequestBytes: 100 })
    const secret = { headers: { 'idempotency-key': '"secret-key"' }, body: Buffer.from('secret-body') }
    await subject.handle(secret)
    const problems = [
      await subject.handle({ ...secret, headers: {} }),
      await subject.handle({ ...secret, headers: { 'idempotency-key': 'secret-key,' } }),
      await subject.handle({ ...secret, body: Buffer.from('secret-other') }),
      await subject.handle({ ...secret, body: Buffer.alloc(101, 'secret') }),
    ]
    expect(problems.map(({ status }) => status)).toEqual([400, 400, 422, 413])
    for (const problem of problems) {
      expect(problem.headers?.['content-type']).toBe('application/problem+json')
      const body = JSON.parse(textOf(problem)) as Record<string, unknown>
      expect(body).toEqual({
        type: documentation ?? 'about:blank',
        title: expect.stringMatching(/^[A-Z]/) as unknown,
        status: problem.status,
        detail: expect.stringMatching(/\.$/) as unknown,
      })
      expect(textOf(problem)).not.toContain('secret')
      const link = documentation === undefined ? undefined : `<${documentation}>; rel="describedby"`
      expect(problem.headers?.['link']).toBe(link)
    }
  }
})

test('H20 requests that show who sends them, without a tenant, are warned of once for each route', async () => {
  const warn = vi.fn()
  const logger = { warn, error: vi.fn() }
  const subject = new IdempotencyUnderTest(target, root, { logger })
  const send = async (path: string, headers: object, route?: string): Promise<void> => {
    const request = { path, headers: { ...KEYED, ...headers } }
    await subject.handle(route === undefined ? request : { ...request, route })
  }
  await send('/a', {})
  expect(warn).not.toHaveBeenCalled()
  await send('/a', { authorization: 'Bearer secret' })
  await send('/a?x', { authorization: 'Bearer secret' })
  await send('/b/1', { cookie: 'session=secret' }, '/b/:id')
  await send('/b/2', { cookie: 'session=secret' }, '/b/:id')
  expect(warn.mock.calls.map(([about]) => (about as { route: string }).route)).toEqual(['/a', '/b/:id'])
  expect(JSON.stringify(warn.mock.calls)).not.toContain('secret')
  const scoped = new IdempotencyUnderTest(target, root, { logger, tenant: () => 'a' })
  await scoped.handle({ headers: { ...KEYED, cookie: 'a=b' } })
  expect(warn).toHaveBeenCalledTimes(2)
})

test('a handler that swallows an error of SQL, or that commits by itself, gets no response of its own', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  const response = await subject.handle({}, async (tx, about) => {
    const created = await subject.create(tx, about)
    await target.exec(tx, 'rollback').catch(() => undefined)
    return created
  })
  expect([response.status, subject.errors.length, await subject.effects()]).toEqual([500, 1, 0])
})

test('a conflict is tried again, and is a 503 after five attempts', async () => {
  const subject = new IdempotencyUnderTest(target, root)
  const conflict = Object.assign(new Error('deadlock'), { code: '40P01', errno: 1213 })
  let failures = 4
  const work: typeof subject.create = async (tx, about) => {
    const response = await subject.create(tx, about)
    if (failures-- > 0) throw conflict
    return response
  }
  expect((await subject.handle({}, work)).status).toBe(201)
  expect([subject.calls, await subject.effects()]).toEqual([5, 1])
  failures = 5
  expect((await subject.handle({ path: '/b' }, work)).status).toBe(503)
  expect([subject.calls, await subject.effects(), subject.errors.length]).toEqual([10, 1, 1])
})
