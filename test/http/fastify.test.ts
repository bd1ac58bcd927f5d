/* oxlint-disable oxc/no-async-endpoint-handlers -- Fastify awaits its handlers. */
import { Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { expect, test } from 'vitest'
import type { PoolClient } from 'pg'
import { fastifyIdempotency } from '@txbox/idempotency-key/fastify'
import { ONCE, withRoutes } from './fastify-under-test.ts'
import { FORBIDDEN, frameworkRules, type Handle } from './framework-rules.ts'
import { send, useOrders } from './http-under-test.ts'

const world = useOrders()

frameworkRules(world, async (shop, routes) => {
  const app = Fastify()
  await app.register(fastifyIdempotency, { idempotency: shop.idempotency })
  for (const [name, handle] of Object.entries(routes) as [string, Handle][]) {
    const preHandler = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> =>
      request.headers[FORBIDDEN] === undefined ? undefined : reply.code(403).send({ refused: true })
    app.post(`/${name}`, { ...ONCE, preHandler }, async (request, reply) => {
      const {
        status,
        headers = {},
        json,
        bytes,
      } = await handle(request.idempotency.tx as PoolClient, request.body)
      return reply
        .code(status)
        .headers(headers)
        .send(bytes ?? json)
    })
  }
  app.get('/read', ONCE, async () => ({ read: true }))
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return { url, close: () => app.close() }
})

test('H3 an error that the user’s own error handler answers with 200 leaves nothing', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.setErrorHandler(async (_error, _request, reply) => reply.code(200).send({ fine: true }))
    const order = (request: FastifyRequest): Promise<number> =>
      one.order(request.idempotency.tx as PoolClient, 'A1')
    app.post('/throws', ONCE, async (request) => {
      await order(request)
      throw new Error('not fine')
    })
    app.post('/throws-text', ONCE, async (request) => {
      await order(request)
      // oxlint-disable-next-line typescript/only-throw-error -- some code throws what is no error.
      throw 'not fine'
    })
    app.post('/sends', ONCE, async (request, reply) => {
      await order(request)
      return reply.send(new Error('not fine'))
    })
    app.post('/later', ONCE, (request, reply) => {
      void order(request).then(() => reply.send(new Error('not fine')))
    })
  })
  for (const path of ['throws', 'throws-text', 'sends', 'later']) {
    const response = await send(`${url}/${path}`)
    expect([response.status, response.text, response.isReplayed]).toEqual([200, '{"fine":true}', false])
    expect((await send(`${url}/${path}`)).isReplayed).toBe(false)
  }
  expect([shop.calls, await shop.orders()]).toEqual([8, 0])
})

test('H14 bytes are taken before a hook that compresses, and a replay is compressed again', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.addHook('onRoute', (route) => {
      route.onSend = [
        ...[route.onSend ?? []].flat(),
        async (_request: FastifyRequest, reply: FastifyReply, payload: unknown) => {
          reply.header('content-encoding', 'gzip').removeHeader('content-length')
          return Readable.from([Buffer.from(payload as string)]).pipe(createGzip())
        },
      ] as never
    })
    app.post('/order', ONCE, async (request) => ({
      order: await one.order(request.idempotency.tx as PoolClient, 'A1'),
    }))
  })
  for (const isReplayed of [false, true]) {
    const response = await send(`${url}/order`)
    expect([response.text, response.isReplayed]).toEqual(['{"order":1}', isReplayed])
    expect(response.headers.get('content-encoding')).toBe('gzip')
  }
  expect(await shop.orders()).toBe(1)
})

test('H14 a stream that ends is stored, and one that is endless, hangs or fails is rolled back', async () => {
  const streams: Record<string, () => Readable> = {
    ends: () => Readable.from(['a', 'b']),
    endless: () =>
      new Readable({
        read() {
          this.push('x'.repeat(1000))
        },
      }),
    hangs: () => new Readable({ read: () => undefined }),
    fails: () =>
      new Readable({
        read() {
          this.destroy(new Error('torn'))
        },
      }),
  }
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      for (const [name, stream] of Object.entries(streams)) {
        app.post(`/${name}`, ONCE, async (request, reply) => {
          await one.order(request.idempotency.tx as PoolClient, name)
          return reply.type('text/plain').send(stream())
        })
      }
      app.post('/response', ONCE, async (request) => {
        await one.order(request.idempotency.tx as PoolClient, 'A1')
        return new Response('of fetch', { status: 202, headers: { 'content-type': 'text/x' } })
      })
    },
    { timeoutMs: 500 },
  )
  for (const isReplayed of [false, true]) {
    const ended = await send(`${url}/ends`)
    expect([ended.status, ended.text, ended.isReplayed]).toEqual([200, 'ab', isReplayed])
    const response = await send(`${url}/response`)
    expect([response.status, response.text, response.isReplayed]).toEqual([202, 'of fetch', isReplayed])
    expect(response.headers.get('content-type')).toBe('text/x')
  }
  expect((await send(`${url}/endless`)).status).toBe(500)
  expect((await send(`${url}/hangs`)).status).toBe(503)
  expect((await send(`${url}/fails`)).status).toBe(500)
  expect(await shop.orders()).toBe(2)
  await shop.idle()
})

test('H6 bytes that a parser changes are compared, and a body of other parts needs a fingerprint', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.addContentTypeParser('multipart/form-data', (_request, payload, done) => {
      payload.resume().on('end', () => done(null, {}))
    })
    app.post('/order', ONCE, async (request) => ({
      order: await one.order(request.idempotency.tx as PoolClient, 'A1'),
    }))
  })
  expect((await send(`${url}/order`, { body: '{"n":9007199254740993}' })).status).toBe(200)
  expect((await send(`${url}/order`, { body: '{"n":9007199254740992}' })).status).toBe(422)
  expect((await send(`${url}/order`, { body: '{ "n": 9007199254740993 }' })).status).toBe(422)
  const headers = { 'content-type': 'multipart/form-data; boundary=x' }
  expect((await send(`${url}/order`, { key: 'k2', body: '--x--', headers })).status).toBe(500)
  expect([shop.calls, shop.errors.length]).toEqual([1, 1])
})

test('routes without the config are not touched', async () => {
  const { url } = await withRoutes(world, (app) => {
    app.post('/other', async (request) => ({ tx: request.idempotency }))
  })
  expect((await send(`${url}/other`)).text).toBe('{"tx":null}')
})

test('H27 hooks of the instance, of a scope and of the route come before the replay, and before the transaction', async () => {
  const refuse = (name: string) => async (request: FastifyRequest, reply: FastifyReply) =>
    request.headers[FORBIDDEN] === name ? reply.code(403).send({ refused: name }) : undefined
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.addHook('preHandler', refuse('instance'))
    void app.register(async (scope) => {
      scope.addHook('preHandler', refuse('scope'))
      scope.post('/order', { ...ONCE, preHandler: [refuse('route')] }, async (request) => ({
        order: await one.order(request.idempotency.tx as PoolClient, 'A1'),
      }))
    })
  })
  expect((await send(`${url}/order`)).status).toBe(200)
  const before = world.begun()
  for (const name of ['instance', 'scope', 'route']) {
    for (const key of ['k1', 'k2']) {
      const response = await send(`${url}/order`, { key, headers: { [FORBIDDEN]: name } })
      expect([response.status, response.text]).toEqual([403, `{"refused":"${name}"}`])
    }
  }
  expect([world.begun(), shop.calls]).toEqual([before, 1])
})
