/* oxlint-disable oxc/no-async-endpoint-handlers -- Fastify awaits its handlers. */
// When a handler of Fastify has ended, and how its response is made.
import http from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { expect, test } from 'vitest'
import type { PoolClient } from 'pg'
import { until } from '../support/worlds/until.ts'
import { ONCE, withRoutes } from './fastify-under-test.ts'
import { send, useOrders } from './http-under-test.ts'

const world = useOrders()
const txOf = (request: FastifyRequest): PoolClient => request.idempotency.tx as PoolClient

test('H2 H3 COMMIT waits for a handler that goes on after its response, and a failure then is the response', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    for (const way of ['returns', 'awaits', 'returns nothing', 'fails', 'sends an error']) {
      app.post(`/${way.replaceAll(' ', '-')}`, ONCE, async (request, reply) => {
        void reply.code(201).send({ order: await one.order(txOf(request), 'A1') })
        if (way === 'awaits') await reply
        await sleep(50)
        await one.order(txOf(request), 'B2')
        if (way === 'fails') throw new Error('too late')
        if (way === 'sends an error') return reply.send(new Error('too late'))
        return way === 'returns' ? reply : undefined
      })
    }
  })
  for (const [n, path] of ['returns', 'awaits', 'returns-nothing'].entries()) {
    const first = await send(`${url}/${path}`)
    expect([first.status, first.text, await shop.orders()]).toEqual([
      201,
      `{"order":${2 * n + 1}}`,
      2 * n + 2,
    ])
    const replay = await send(`${url}/${path}`)
    expect([replay.status, replay.text, replay.isReplayed]).toEqual([201, first.text, true])
  }
  for (const path of ['fails', 'sends-an-error']) {
    for (let attempt = 1; attempt <= 2; attempt++) {
      const failed = await send(`${url}/${path}`)
      expect([failed.status, failed.isReplayed]).toEqual([500, false])
      expect(failed.text).toContain('too late')
    }
  }
  expect([shop.calls, await shop.orders(), await shop.transactions()]).toEqual([14, 6, 0])
})

test('H3 a response that cannot be serialized leaves nothing, also if the user’s error handler answers with 200', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.setErrorHandler(async (_error, _request, reply) => reply.code(200).send({ fine: true }))
    app.post('/returns', ONCE, async (request) => ({ n: BigInt(await one.order(txOf(request), 'A1')) }))
    app.post('/sends', ONCE, async (request, reply) =>
      reply.send({ n: BigInt(await one.order(txOf(request), 'A1')) }),
    )
  })
  for (const path of ['returns', 'sends']) {
    for (let attempt = 1; attempt <= 2; attempt++) {
      const response = await send(`${url}/${path}`)
      expect([response.status, response.text, response.isReplayed]).toEqual([200, '{"fine":true}', false])
    }
  }
  expect([shop.calls, await shop.orders(), await shop.transactions()]).toEqual([4, 0, 0])
})

test('H15 a handler that returns nothing commits also if the client has hung up, and one that has not answered does not', async () => {
  const gate = { reached: 0, ...Promise.withResolvers<void>() }
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      app.post('/nothing', ONCE, async (request, reply) => {
        await one.order(txOf(request), 'A1')
        gate.reached += 1
        await gate.promise
        reply.code(202)
      })
      app.post('/later', ONCE, async (request, reply) => {
        await one.order(txOf(request), 'A1')
        gate.reached += 1
        void gate.promise.then(() => sleep(20)).then(() => reply.code(201).send({ later: true }))
        return reply
      })
    },
    { timeoutMs: 5000 },
  )
  for (const path of ['nothing', 'later']) {
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'k1' }
    const hungUp = http.request(`${url}/${path}`, { method: 'POST', headers })
    hungUp.on('error', () => undefined)
    hungUp.end('{"sku":"A1"}')
    const already = gate.reached
    await until(
      async () => gate.reached > already,
      () => 'the handler runs',
    )
    hungUp.destroy()
  }
  await sleep(50)
  gate.resolve()
  await until(
    async () => (await shop.orders()) === 2,
    () => 'both orders are committed',
  )
  const retries = [await send(`${url}/nothing`), await send(`${url}/later`)]
  expect(retries.map(({ status, text, isReplayed }) => [status, text, isReplayed])).toEqual([
    [202, '', true],
    [201, '{"later":true}', true],
  ])
  expect([shop.calls, await shop.transactions()]).toEqual([2, 0])
})

test('H14 hooks of the instance that change a response change the first one and a replay alike, once', async () => {
  const { url } = await withRoutes(world, (app, one) => {
    app.addHook('onSend', async (_request, reply, payload) => {
      reply.header('x-hooks', `${String(reply.getHeader('x-hooks') ?? '')}+`)
      return `${String(payload)}!`
    })
    app.post('/order', ONCE, async (request, reply) =>
      reply.type('text/plain').send(`order ${await one.order(txOf(request), 'A1')}`),
    )
  })
  for (const isReplayed of [false, true]) {
    const response = await send(`${url}/order`)
    expect([response.text, response.headers.get('x-hooks'), response.isReplayed]).toEqual([
      'order 1!',
      '+',
      isReplayed,
    ])
  }
})

test('H5 the path is the one that the client sent, before the server rewrites it', async () => {
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      app.post('/order', ONCE, async (request) => ({ order: await one.order(txOf(request), 'A1') }))
    },
    { server: { rewriteUrl: () => '/order' } },
  )
  expect((await send(`${url}/shops/1/order`)).text).toBe('{"order":1}')
  expect((await send(`${url}/shops/2/order`)).text).toBe('{"order":2}')
  expect((await send(`${url}/shops/2/order`)).isReplayed).toBe(true)
  expect(await shop.orders()).toBe(2)
})

test('H7 H8 a Response of fetch with cookies, and one without a body', async () => {
  const { url } = await withRoutes(
    world,
    (app) => {
      const answer = async (_: FastifyRequest, reply: FastifyReply): Promise<Response> => {
        reply.header('set-cookie', 'own=0')
        const response = new Response('text', { status: 202, headers: { 'set-cookie': 'a=1' } })
        response.headers.append('set-cookie', 'b=2')
        return response
      }
      app.post('/cookies', ONCE, answer)
      app.post('/empty', ONCE, async () => new Response(null, { status: 204 }))
    },
    { required: false },
  )
  for (const key of ['k1', '']) {
    const first = await send(`${url}/cookies`, { key })
    expect([first.status, first.text, first.isReplayed]).toEqual([202, 'text', false])
    expect(first.headers.getSetCookie()).toEqual(['own=0', 'a=1', 'b=2'])
    expect((await send(`${url}/empty`, { key })).status).toBe(204)
  }
  const [cookies, empty] = [await send(`${url}/cookies`), await send(`${url}/empty`)]
  expect([cookies.isReplayed, cookies.headers.getSetCookie(), empty.isReplayed]).toEqual([true, [], true])
})

test('H13 a stream that hangs, or is too large, is destroyed', async () => {
  const streams: Readable[] = []
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      const route = (name: string, read: (this: Readable) => void): void => {
        app.post(`/${name}`, ONCE, async (request, reply) => {
          await one.order(txOf(request), name)
          const stream = new Readable({ read })
          streams.push(stream)
          return reply.send(stream)
        })
      }
      route('hangs', () => undefined)
      route('endless', function read(this: Readable) {
        this.push('x'.repeat(1000))
      })
    },
    { timeoutMs: 400 },
  )
  expect((await send(`${url}/hangs`)).status).toBe(503)
  expect((await send(`${url}/endless`)).status).toBe(500)
  expect(streams.map(({ destroyed }) => destroyed)).toEqual([true, true])
  expect(await shop.orders()).toBe(0)
  await shop.idle()
})

test('H2 a handler may wait until it has filled a stream that it has already sent', async () => {
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      const fill = async (request: FastifyRequest, stream: PassThrough): Promise<void> => {
        await pipeline(Readable.from(['x'.repeat(40_000), 'y'.repeat(40_000)]), stream)
        await one.order(txOf(request), 'A1')
      }
      app.post('/stream', ONCE, async (request, reply) => {
        const stream = new PassThrough()
        void reply.type('text/plain').send(stream)
        await fill(request, stream)
      })
      app.post('/response', ONCE, async (request, reply) => {
        const stream = new PassThrough()
        void reply.send(new Response(Readable.toWeb(stream) as never, { status: 202 }))
        await fill(request, stream)
      })
      app.post('/torn', ONCE, async (request, reply) => {
        const stream = new PassThrough()
        void reply.type('text/plain').send(stream)
        await one.order(txOf(request), 'A1')
        stream.write('x')
        await sleep(20)
        stream.destroy(new Error('torn'))
      })
    },
    { timeoutMs: 3000, required: false },
  )
  const text = `${'x'.repeat(40_000)}${'y'.repeat(40_000)}`
  for (const [path, status] of [
    ['stream', 200],
    ['response', 202],
  ] as const) {
    for (const [key, isReplayed] of [
      ['k1', false],
      ['k1', true],
      ['', false],
    ] as const) {
      const answer = await send(`${url}/${path}`, { key })
      expect([answer.status, answer.text === text, answer.isReplayed]).toEqual([status, true, isReplayed])
    }
  }
  expect(await shop.orders()).toBe(4)
  expect((await send(`${url}/torn`)).status).toBe(500)
  expect([await shop.orders(), shop.errors]).toEqual([4, []])
})

test('H13 at the handlerTimeout of Fastify the handler is given up, and its transaction is rolled back at once', async () => {
  let signal: AbortSignal | undefined
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.post('/hangs', { ...ONCE, handlerTimeout: 300 }, async (request) => {
      signal = request.idempotency.signal
      await one.order(txOf(request), 'A1')
      await new Promise(() => undefined)
    })
  })
  // Fastify forgets this time limit as soon as a body has been read.
  const response = await fetch(`${url}/hangs`, { method: 'POST', headers: { 'idempotency-key': 'k1' } })
  expect([response.status, await response.text()]).toEqual([
    503,
    expect.stringContaining('FST_ERR_HANDLER_TIMEOUT') as unknown,
  ])
  expect([signal?.aborted, await shop.orders()]).toEqual([true, 0])
  await shop.idle()
  expect(shop.errors).toEqual([])
})
