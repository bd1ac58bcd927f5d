import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve, type ServerType } from '@hono/node-server'
import { Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { expect, onTestFinished, test } from 'vitest'
import { idempotent, type IdempotencyVariables } from '@txbox/idempotency-key/hono'
import type { PoolClient } from 'pg'
import { FORBIDDEN, frameworkRules, type Handle, type Served } from './framework-rules.ts'
import { send, useOrders } from './http-under-test.ts'

const world = useOrders()
interface Source {
  cancel?(): void
  start?(controller: ReadableStreamDefaultController<Uint8Array>): void
  pull?(controller: ReadableStreamDefaultController<Uint8Array>): void
}
type App = Hono<{ Variables: IdempotencyVariables<PoolClient> }>

async function served(app: App): Promise<Served> {
  const server: ServerType = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  if (!server.listening) await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      if ('closeAllConnections' in server) server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

frameworkRules(world, async (shop, routes) => {
  const app: App = new Hono()
  app.onError((error, c) => {
    const { status = 500 } = error as { status?: number }
    return c.json({ failed: true }, status as 500)
  })
  app.use(async (c, next) => {
    if (c.req.header(FORBIDDEN) !== undefined) return c.json({ refused: true }, 403)
    await next()
    return undefined
  })
  for (const [name, handle] of Object.entries(routes) as [string, Handle][]) {
    app.post(`/${name}`, idempotent(shop.idempotency), async (c) => {
      const { status, headers = {}, json, bytes } = await handle(c.get('tx'), await c.req.json())
      if (bytes === undefined) return c.json(json as object, status as 200, headers)
      return c.body(new Uint8Array(bytes), status as 200, headers)
    })
  }
  app.get('/read', idempotent(shop.idempotency), (c) => c.json({ read: true }))
  return served(app)
})

test('H3 H14 an exception of Hono leaves nothing, and a stream that ends is stored', async () => {
  const shop = world.create({ timeoutMs: 500 })
  const app: App = new Hono()
  app.post('/refuses', idempotent(shop.idempotency), async (c) => {
    await shop.order(c.get('tx'), 'A1')
    throw new HTTPException(409, { message: 'sold out' })
  })
  const stream = (name: string, source: () => Source): void => {
    app.post(`/${name}`, idempotent(shop.idempotency), async (c) => {
      await shop.order(c.get('tx'), name)
      return c.body(new ReadableStream(source()))
    })
  }
  stream('ends', () => ({
    start(controller) {
      controller.enqueue(Buffer.from('ab'))
      controller.close()
    },
  }))
  stream('endless', () => ({ pull: (controller) => controller.enqueue(Buffer.alloc(1000)) }))
  let cancelled = 0
  stream('hangs', () => ({ start: () => undefined, cancel: () => void (cancelled += 1) }))
  const server = await served(app)
  onTestFinished(() => server.close())
  for (const isReplayed of [false, true]) {
    expect([(await send(`${server.url}/refuses`)).status, await shop.orders()]).toEqual([
      409,
      isReplayed ? 1 : 0,
    ])
    const ended = await send(`${server.url}/ends`)
    expect([ended.status, ended.text, ended.isReplayed]).toEqual([200, 'ab', isReplayed])
  }
  expect((await send(`${server.url}/endless`)).status).toBe(500)
  expect((await send(`${server.url}/hangs`)).status).toBe(503)
  expect(cancelled).toBe(1)
  expect(await shop.orders()).toBe(1)
  await shop.idle()
})
