import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { expect, test } from 'vitest'
import { idempotentFetch } from '@txbox/idempotency-key/fetch'
import { FORBIDDEN, frameworkRules, type Handle } from './framework-rules.ts'
import { useOrders } from './http-under-test.ts'

const world = useOrders()

frameworkRules(world, async (shop, routes) => {
  const handlers = new Map<string, (request: Request) => Promise<Response>>()
  for (const [name, handle] of Object.entries(routes) as [string, Handle][]) {
    const POST = idempotentFetch(shop.idempotency, async (request, tx) => {
      const { status, headers, json, bytes } = await handle(tx, await request.json())
      return bytes === undefined
        ? Response.json(json, { status, headers: headers ?? {} })
        : new Response(new Uint8Array(bytes), { status, headers: headers ?? {} })
    })
    handlers.set(`/${name}`, POST)
  }
  handlers.set(
    '/read',
    idempotentFetch(shop.idempotency, () => Response.json({ read: true })),
  )
  const fetch = async (request: Request): Promise<Response> => {
    if (request.headers.has(FORBIDDEN)) return Response.json({ refused: true }, { status: 403 })
    try {
      return await handlers.get(new URL(request.url).pathname)!(request)
    } catch (error) {
      return Response.json({ failed: true }, { status: (error as { status?: number }).status ?? 500 })
    }
  }
  const server = serve({ fetch, port: 0, hostname: '127.0.0.1' })
  if (!server.listening) await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      if ('closeAllConnections' in server) server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
})

const post = (body = '{"sku":"A1"}'): Request =>
  new Request('http://shop/orders/7?x=1', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': 'k1' },
    body,
  })

test('further arguments reach the handler, and cookies of the first response are not replayed', async () => {
  const shop = world.create()
  const handler = async (
    _: Request,
    tx: Parameters<typeof shop.order>[0],
    __: unknown,
    id: string,
  ): Promise<Response> => {
    const headers = new Headers({ 'content-type': 'text/x' })
    headers.append('set-cookie', 'a=1')
    headers.append('set-cookie', 'b=2')
    return new Response(`${id} ${await shop.order(tx, 'A1')}`, { headers })
  }
  const POST = idempotentFetch(shop.idempotency, handler)
  const first = await POST(post(), '7')
  expect([first.headers.getSetCookie(), await first.text()]).toEqual([['a=1', 'b=2'], '7 1'])
  const replay = await POST(post(), '8')
  expect([replay.headers.getSetCookie(), await replay.text()]).toEqual([[], '7 1'])
})

test('a conflict in the database calls the handler again, with a request whose body can be read', async () => {
  const shop = world.create()
  const POST = idempotentFetch(shop.idempotency, async (request, tx) => {
    const { sku } = (await request.json()) as { sku: string }
    const order = await shop.order(tx, sku)
    if (order < 3) throw Object.assign(new Error('deadlock'), { code: '40P01' })
    return Response.json({ order, sku })
  })
  expect(await (await POST(post())).json()).toEqual({ order: 3, sku: 'A1' })
  expect(await shop.orders()).toBe(1)
})

test('a response without a body, and one over the limit of requests', async () => {
  const shop = world.create({ maxRequestBytes: 20 })
  const POST = idempotentFetch(shop.idempotency, () => new Response(null, { status: 204 }))
  for (const replayed of [null, 'true']) {
    const response = await POST(post())
    expect([response.status, response.headers.get('idempotent-replayed')]).toEqual([204, replayed])
  }
  expect((await POST(post('x'.repeat(21)))).status).toBe(413)
})

test('a request whose body is not kept is handled once: a conflict in the database is a 503', async () => {
  const shop = world.create({ maxRequestBytes: 20, required: false })
  const POST = idempotentFetch(shop.idempotency, async (request, tx) => {
    const text = await request.text()
    await shop.order(tx, 'A1')
    if (text !== 'fine') throw Object.assign(new Error('deadlock'), { code: '40P01' })
    return new Response(text)
  })
  const response = await POST(new Request('http://shop/orders', { method: 'POST', body: 'x'.repeat(1000) }))
  expect([response.status, shop.calls]).toEqual([503, 1])
  expect(await response.text()).not.toContain('Send it again with the same')
  const put = await POST(new Request('http://shop/orders', { method: 'PUT', body: 'changed' }))
  expect([put.status, shop.calls]).toEqual([503, 2])
  // Without a body, the request can be given again.
  expect((await POST(new Request('http://shop/orders', { method: 'POST' }))).status).toBe(503)
  expect(shop.calls).toBe(7)
  expect((await POST(new Request('http://shop/orders', { method: 'PUT', body: 'fine' }))).status).toBe(200)
  expect(await shop.orders()).toBe(1)
})
