import http from 'node:http'
import net from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { PoolClient } from 'pg'
import type { IdempotencyOptions } from '@txbox/idempotency-key'
import { until } from '../support/worlds/until.ts'
import { send, type Shop, type useOrders } from './http-under-test.ts'

/** A handler, whatever the framework: with the transaction, and the parsed body. */
export type Handle = (tx: PoolClient, body: unknown) => Promise<Reply>

export interface Reply {
  readonly status: number
  readonly headers?: Record<string, string>
  readonly json?: unknown
  readonly bytes?: Buffer
}

/** The routes that a server of any framework has, each with a guard that refuses requests without the right to order. */
export interface Routes {
  readonly order: Handle
  readonly fail: Handle
  readonly bytes: Handle
  readonly unavailable: Handle
  readonly hang: Handle
}

export interface Served {
  readonly url: string
  close(): Promise<void>
}

/** Refuses a request, as an authentication does. */
export const FORBIDDEN = 'x-forbidden'

/** The rules that a plug-in must keep, on a real server and a real client. */
export function frameworkRules(
  world: ReturnType<typeof useOrders>,
  serve: (shop: Shop, routes: Routes) => Promise<Served>,
): void {
  const gate = { open: () => undefined as void, opened: Promise.resolve(), reached: 0 }
  const close = (): void => {
    const { promise, resolve } = Promise.withResolvers<void>()
    Object.assign(gate, { open: resolve, opened: promise, reached: 0 })
  }

  async function started(options: IdempotencyOptions = {}): Promise<{ shop: Shop; url: string }> {
    const shop = world.create(options)
    const sku = (body: unknown): string => (body as { sku: string }).sku
    const order: Handle = async (tx, body) => {
      const json = { order: await shop.order(tx, sku(body)), sku: sku(body) }
      return { status: 201, headers: { location: `/orders/${json.order}`, 'x-once': 'yes' }, json }
    }
    const served = await serve(shop, {
      order,
      bytes: async (tx, body) => {
        await order(tx, body)
        return {
          status: 200,
          headers: { 'content-type': 'application/x-test' },
          bytes: Buffer.from([0, 255, 13, 10]),
        }
      },
      unavailable: async (tx, body) => ({ ...(await order(tx, body)), status: 502 }),
      fail: async (tx, body) => {
        await order(tx, body)
        throw Object.assign(new Error('sold out'), { statusCode: 409, status: 409 })
      },
      hang: async (tx, body) => {
        const reply = await order(tx, body)
        gate.reached += 1
        await gate.opened
        return reply
      },
    })
    onTestFinished(() => served.close())
    return { shop, url: served.url }
  }

  test('H1 H2 H7 a request is handled once, and a retry gets the stored response', async () => {
    const { shop, url } = await started()
    const first = await send(`${url}/order`)
    expect([first.status, first.isReplayed, first.text]).toEqual([201, false, '{"order":1,"sku":"A1"}'])
    expect(await shop.orders()).toBe(1)
    const replay = await send(`${url}/order`)
    expect([replay.status, replay.isReplayed]).toEqual([201, true])
    expect(replay.bytes).toEqual(first.bytes)
    for (const name of ['location', 'content-type']) {
      expect(replay.headers.get(name)).toBe(first.headers.get(name))
    }
    expect([first.headers.get('x-once'), replay.headers.get('x-once')]).toEqual(['yes', null])
    expect([shop.calls, await shop.orders(), await shop.transactions()]).toEqual([1, 1, 0])
    expect((await send(`${url}/order`, { body: { sku: 'B2' } })).status).toBe(422)
    expect((await send(`${url}/order`, { key: '' })).status).toBe(400)
    expect((await send(`${url}/order`, { key: 'k2' })).text).toBe('{"order":2,"sku":"A1"}')
  })

  test('H7 bytes that are no text are replayed as they were', async () => {
    const { url } = await started()
    const [first, replay] = [await send(`${url}/bytes`), await send(`${url}/bytes`)]
    expect([first.isReplayed, replay.isReplayed]).toEqual([false, true])
    for (const one of [first, replay]) {
      expect(one.bytes).toEqual(Buffer.from([0, 255, 13, 10]))
      expect(one.headers.get('content-type')).toBe('application/x-test')
    }
  })

  test('H4 two header lines of one request are a 400', async () => {
    const { shop, url } = await started()
    const { hostname, port } = new URL(url)
    const socket = net.connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    socket.write(
      `POST /order HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nidempotency-key: k1\r\n` +
        `idempotency-key: k1\r\ncontent-length: 12\r\nconnection: close\r\n\r\n{"sku":"A1"}`,
    )
    let text = ''
    for await (const chunk of socket) text += String(chunk)
    expect(text).toMatch(/^HTTP\/1\.1 400 /)
    expect(text).toContain('application/problem+json')
    expect(shop.calls).toBe(0)
  })

  test('H1 of many requests at once one takes effect', async () => {
    const { shop, url } = await started({ whileInFlight: { waitMs: 20_000 } })
    const responses = await Promise.all(Array.from({ length: 20 }, () => send(`${url}/order`)))
    expect(new Set(responses.map(({ text }) => text))).toEqual(new Set(['{"order":1,"sku":"A1"}']))
    expect(responses.filter(({ isReplayed }) => !isReplayed).length).toBe(1)
    expect([shop.calls, await shop.orders()]).toEqual([1, 1])
  })

  test('H3 a handler that throws leaves nothing, whatever response the framework makes of it', async () => {
    const { shop, url } = await started()
    for (let attempt = 1; attempt <= 2; attempt++) {
      const response = await send(`${url}/fail`)
      expect([response.status, response.isReplayed]).toEqual([409, false])
      expect([shop.calls, await shop.orders(), await shop.transactions()]).toEqual([attempt, 0, 0])
    }
    expect(shop.errors).toEqual([])
  })

  test('H9 a response that is not kept is rolled back, and sent as it is', async () => {
    const { shop, url } = await started()
    for (let attempt = 1; attempt <= 2; attempt++) {
      const response = await send(`${url}/unavailable`)
      expect([response.status, response.text]).toEqual([502, `{"order":${attempt},"sku":"A1"}`])
    }
    expect([await shop.orders(), await shop.transactions()]).toEqual([0, 0])
  })

  test('H10 while a request is handled, another one gets 409, and another body 422', async () => {
    const { shop, url } = await started()
    close()
    const first = send(`${url}/hang`)
    await until(
      async () => gate.reached === 1,
      () => 'the handler runs',
    )
    const refused = await send(`${url}/hang`)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([409, '1'])
    expect(refused.headers.get('content-type')).toContain('application/problem+json')
    expect((await send(`${url}/hang`, { body: { sku: 'B2' } })).status).toBe(422)
    gate.open()
    expect([(await first).status, shop.calls]).toEqual([201, 1])
  })

  test('H13 a handler that hangs gets 503 at timeoutMs, and what it sends later is not sent', async () => {
    const { shop, url } = await started({ timeoutMs: 400 })
    close()
    const late = await send(`${url}/hang`)
    expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1'])
    expect(late.headers.get('content-type')).toContain('application/problem+json')
    expect(late.headers.get('x-once')).toBe(null)
    // Until the server has seen the end of the connection, the claim is in flight.
    await shop.idle()
    gate.open()
    const next = await send(`${url}/hang`)
    expect([next.status, next.isReplayed, next.text]).toEqual([201, false, '{"order":2,"sku":"A1"}'])
    expect([await shop.orders(), await shop.transactions()]).toEqual([1, 0])
  })

  test('H14 a response that cannot be stored is a 500 problem, and rolled back', async () => {
    const { shop, url } = await started({ maxResponseBytes: 10 })
    const response = await send(`${url}/order`)
    expect(response.status).toBe(500)
    expect(response.headers.get('content-type')).toContain('application/problem+json')
    expect([response.headers.get('location'), response.headers.get('x-once')]).toEqual([null, null])
    expect([await shop.orders(), shop.errors.length]).toEqual([0, 1])
  })

  test('H15 a client that hangs up changes nothing: the work commits, and a retry is a replay', async () => {
    const { shop, url } = await started()
    close()
    const hungUp = http.request(`${url}/hang`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k1' },
    })
    hungUp.on('error', () => undefined)
    hungUp.end('{"sku":"A1"}')
    await until(
      async () => gate.reached === 1,
      () => 'the handler runs',
    )
    hungUp.destroy()
    await new Promise((resolve) => setTimeout(resolve, 50))
    gate.open()
    await until(
      async () => (await shop.orders()) === 1,
      () => 'the order is committed',
    )
    const retry = await send(`${url}/hang`)
    expect([retry.status, retry.isReplayed, retry.text]).toEqual([201, true, '{"order":1,"sku":"A1"}'])
    expect(await shop.orders()).toBe(1)
  })

  test('H27 a request that the route refuses gets neither a stored response nor a transaction', async () => {
    const { shop, url } = await started()
    await send(`${url}/order`)
    const before = world.begun()
    const refused = await send(`${url}/order`, { headers: { [FORBIDDEN]: 'yes' } })
    expect(refused.status).toBe(403)
    expect([refused.isReplayed, refused.text.includes('order"')]).toEqual([false, false])
    expect((await send(`${url}/order`, { key: 'k9', headers: { [FORBIDDEN]: 'yes' } })).status).toBe(403)
    expect(world.begun()).toBe(before)
    expect(shop.calls).toBe(1)
  })

  test('H18 a GET passes, with the header and without', async () => {
    const { url } = await started()
    for (const key of ['', 'k1']) {
      const response = await send(`${url}/read`, { method: 'GET', key })
      expect([response.status, response.text, response.isReplayed]).toEqual([200, '{"read":true}', false])
    }
  })

  test('H9 a response of a request without a key is sent whole, and one with a key is a 500 over maxResponseBytes, kept or not', async () => {
    const { shop, url } = await started({ required: false, maxResponseBytes: 10 })
    const sku = 'x'.repeat(100)
    for (const [path, status] of [
      ['order', 201],
      ['unavailable', 502],
    ] as const) {
      const plain = await send(`${url}/${path}`, { key: '', body: { sku } })
      expect([plain.status, JSON.parse(plain.text)]).toEqual([status, { order: shop.calls, sku }])
      const keyed = await send(`${url}/${path}`, { body: { sku } })
      expect([keyed.status, keyed.headers.get('content-type')]).toEqual([500, 'application/problem+json'])
    }
    expect([await shop.orders(), shop.errors.length]).toEqual([1, 2])
  })

  test('a handler never gets a part of a body, also without a key', async () => {
    const { shop, url } = await started({ required: false, maxRequestBytes: 20 })
    const sku = 'x'.repeat(10_000)
    const response = await send(`${url}/order`, { key: '', body: { sku } })
    if (response.status !== 413) expect(JSON.parse(response.text)).toEqual({ order: 1, sku })
    expect([shop.calls, await shop.orders()]).toEqual(response.status === 413 ? [0, 0] : [1, 1])
  })

  test('H5 the tenant can be taken from the request of the framework', async () => {
    const { shop, url } = await started({ tenant: ({ native }) => accountOf(native) })
    for (const account of ['a', 'b']) {
      for (const isReplayed of [false, true]) {
        const response = await send(`${url}/order`, { headers: { 'x-account': account } })
        expect([response.status, response.isReplayed]).toEqual([201, isReplayed])
      }
    }
    expect(await shop.orders()).toBe(2)
  })

  test('a request without a key, where none is required, is handled in a transaction, and not stored', async () => {
    const { shop, url } = await started({ required: false })
    for (let n = 1; n <= 2; n++) {
      expect((await send(`${url}/order`, { key: '' })).text).toBe(`{"order":${n},"sku":"A1"}`)
    }
    expect((await send(`${url}/unavailable`, { key: '' })).status).toBe(502)
    expect(await shop.orders()).toBe(2)
  })
}

/** A header of the request of a framework, or of the context of Hono. */
function accountOf(native: unknown): string | undefined {
  const { req, raw } = native as { req?: { raw: Request }; raw?: http.IncomingMessage }
  const { headers } = req?.raw ?? raw ?? (native as Request | http.IncomingMessage)
  return headers instanceof Headers ? (headers.get('x-account') ?? undefined) : String(headers['x-account'])
}
