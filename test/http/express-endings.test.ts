// When a handler of Express has ended, and what it has sent then.
import { setTimeout as sleep } from 'node:timers/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import express, { type Request } from 'express'
import { expect, test } from 'vitest'
import { idempotent } from '@txbox/idempotency-key/express'
import { withRoutes } from './express-under-test.ts'
import { send, useOrders } from './http-under-test.ts'

const world = useOrders()

test('H2 a handler that goes on after it has ended its response is waited for, and all of its work commits', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.post(
      '/order',
      idempotent(one.idempotency, async (_, response, tx) => {
        response.json({ order: await one.order(tx, 'A1') })
        await sleep(100)
        await one.order(tx, 'B2')
      }),
    )
  })
  expect((await send(`${url}/order`)).text).toBe('{"order":1}')
  expect(await shop.orders()).toBe(2)
  expect((await send(`${url}/order`)).isReplayed).toBe(true)
})

test('H3 a handler that fails after it has ended its response leaves nothing, and its response is not sent', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.post(
      '/order',
      idempotent(one.idempotency, async (_, response, tx) => {
        response
          .status(201)
          .set('x-order', '1')
          .end(`order ${await one.order(tx, 'A1')}`)
        await sleep(20)
        throw new Error('too late')
      }),
    )
  })
  for (let attempt = 1; attempt <= 2; attempt++) {
    const response = await send(`${url}/order`)
    expect([response.status, response.text]).toEqual([500, '{"failed":true}'])
    expect([response.isReplayed, response.headers.get('x-order')]).toEqual([false, null])
  }
  expect([shop.calls, await shop.orders(), await shop.transactions()]).toEqual([2, 0, 0])
})

test('H13 a handler that ends its response and then hangs gets 503 at timeoutMs', async () => {
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      app.post(
        '/order',
        idempotent(one.idempotency, async (_, response, tx) => {
          response.json({ order: await one.order(tx, 'A1') })
          await new Promise(() => undefined)
        }),
      )
    },
    { timeoutMs: 300 },
  )
  expect((await send(`${url}/order`)).status).toBe(503)
  expect(await shop.orders()).toBe(0)
  await shop.idle()
})

test('H7 what a handler writes or sets after the end of its response is in neither the response nor the replay', async () => {
  const { url } = await withRoutes(world, (app, one) => {
    app.post(
      '/order',
      idempotent(one.idempotency, async (_, response) => {
        response.status(201).type('text').end('first')
        response.status(202).set('location', '/late').write('late')
        response.end('later')
      }),
    )
  })
  for (const isReplayed of [false, true]) {
    const response = await send(`${url}/order`)
    expect([response.status, response.text, response.isReplayed]).toEqual([201, 'first', isReplayed])
    expect(response.headers.get('location')).toBe(null)
  }
})

test('a handler that waits until a stream has been sent does not wait for its own COMMIT', async () => {
  const { url } = await withRoutes(
    world,
    (app, one) => {
      let finished = 0
      app.use((_request, response, next) => {
        response.on('finish', () => (finished += 1))
        next()
      })
      app.get('/finished', (_, response) => void response.json({ finished }))
      app.post(
        '/order',
        idempotent(one.idempotency, async (_, response) =>
          pipeline(Readable.from(['a', 'b']), response.type('text')),
        ),
      )
    },
    { timeoutMs: 2000 },
  )
  for (const isReplayed of [false, true]) {
    const response = await send(`${url}/order`)
    expect([response.status, response.text, response.isReplayed]).toEqual([200, 'ab', isReplayed])
  }
  // What was there before the handler is told once for each response that was sent.
  expect((await send(`${url}/finished`, { method: 'GET' })).text).toBe('{"finished":2}')
})

test('a request over maxRequestBytes without a key is a 413 where the body is read here, and no handler gets a part of it', async () => {
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      const handler = idempotent(one.idempotency, async (request, response, tx) => {
        await one.order(tx, 'A1')
        response.json({ bytes: JSON.stringify(request.body).length })
      })
      app.post('/read', handler)
      app.post('/parsed', express.json(), handler)
    },
    { maxRequestBytes: 100, required: false },
  )
  const body = JSON.stringify({ a: 'x'.repeat(1000) })
  expect((await send(`${url}/read`, { key: '', body })).status).toBe(413)
  expect((await send(`${url}/read`, { key: '' })).text).toBe('{"bytes":12}')
  expect((await send(`${url}/parsed`, { key: '', body })).text).toBe(`{"bytes":${body.length}}`)
  expect(shop.calls).toBe(2)
})

test('the option key is not asked for a body that was cut', async () => {
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      app.post(
        '/order',
        idempotent(one.idempotency, async (_, response, tx) =>
          response.json({ order: await one.order(tx, 'A1') }),
        ),
      )
    },
    {
      maxRequestBytes: 100,
      key: ({ native }) => ((native as Request).body as { id?: string } | undefined)?.id,
    },
  )
  expect((await send(`${url}/order`, { body: { id: 'a', a: 'x'.repeat(1000) } })).status).toBe(413)
  expect((await send(`${url}/order`, { body: { id: 'a' } })).text).toBe('{"order":1}')
  expect((await send(`${url}/order`, { body: { id: 'a' } })).isReplayed).toBe(true)
  expect([shop.calls, shop.errors]).toEqual([1, []])
})

test('H6 a parser that makes null of the JSON text null has parsed the body', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    const handler = idempotent(one.idempotency, async (_, response, tx) => {
      response.json({ order: await one.order(tx, 'A1') })
    })
    app.post('/order', express.json({ strict: false }), handler)
  })
  for (const isReplayed of [false, true]) {
    const response = await send(`${url}/order`, { body: 'null' })
    expect([response.status, response.isReplayed]).toEqual([200, isReplayed])
  }
  expect((await send(`${url}/order`, { body: 'true' })).status).toBe(422)
  expect(await shop.orders()).toBe(1)
})
