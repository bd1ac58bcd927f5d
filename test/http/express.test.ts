import { once } from 'node:events'
import net from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createGzip } from 'node:zlib'
import express, { type NextFunction, type Request, type Response } from 'express'
import { describe, expect, test } from 'vitest'
import { idempotent } from '@txbox/idempotency-key/express'
import { served, withRoutes } from './express-under-test.ts'
import { FORBIDDEN, frameworkRules, type Handle } from './framework-rules.ts'
import { send, useOrders } from './http-under-test.ts'

const world = useOrders()

for (const parser of ['express.json before it', 'no parser']) {
  describe(parser, () => {
    frameworkRules(world, async (shop, routes) => {
      const app = express()
      if (parser !== 'no parser') app.use(express.json())
      for (const [name, handle] of Object.entries(routes) as [string, Handle][]) {
        const guard = (request: Request, response: Response, next: NextFunction): void => {
          if (request.headers[FORBIDDEN] === undefined) next()
          else response.status(403).json({ refused: true })
        }
        const handler = idempotent(shop.idempotency, async (request, response, tx) => {
          const { status, headers = {}, json, bytes } = await handle(tx, request.body)
          response.status(status).set(headers)
          if (bytes === undefined) response.json(json)
          else response.send(bytes)
        })
        app.post(`/${name}`, guard, handler)
      }
      app.get(
        '/read',
        idempotent(shop.idempotency, (_, response) => response.json({ read: true })),
      )
      return served(app)
    })
  })
}

test('H7 whatever way a handler writes its response, the replay is the same', async () => {
  const ways: Record<string, (response: Response) => unknown> = {
    end: (response) => response.writeHead(201, { 'content-type': 'text/x' }).end('a'),
    raw: (response) => response.writeHead(201, 'Fine', ['content-type', 'text/x']).end(),
    chunks: (response) => {
      response.type('text').flushHeaders()
      response.write('a', () => {
        response.write('YmM=', 'base64')
        setTimeout(() => response.end('d'), 5)
      })
    },
    stream: (response) => Readable.from(['a', 'b']).pipe(response.type('text')),
    status: (response) => response.sendStatus(202),
    redirect: (response) => response.redirect(303, '/orders/1'),
  }
  const { shop, url } = await withRoutes(world, (app, one) => {
    for (const [name, write] of Object.entries(ways)) {
      const handler = idempotent(one.idempotency, async (_, response, tx) => {
        await one.order(tx, name)
        write(response)
      })
      app.post(`/${name}`, handler)
    }
  })
  for (const name of Object.keys(ways)) {
    if (name === 'redirect') continue
    const [first, replay] = [await send(`${url}/${name}`), await send(`${url}/${name}`)]
    expect([first.isReplayed, replay.isReplayed]).toEqual([false, true])
    expect([replay.status, replay.text, replay.headers.get('content-type')]).toEqual([
      first.status,
      first.text,
      first.headers.get('content-type'),
    ])
  }
  expect((await send(`${url}/chunks`)).text).toBe('abcd')
  expect(await shop.orders()).toBe(5)
})

test('H14 bytes are taken before a compression that was mounted before, and a replay is compressed again', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.use((_request, response, next) => {
      const end = response.end.bind(response)
      response.end = ((chunk: Buffer) => {
        response.setHeader('content-encoding', 'gzip')
        response.removeHeader('content-length')
        const parts: Buffer[] = []
        const gzip = createGzip()
        gzip.on('data', (part: Buffer) => void parts.push(part)).on('end', () => end(Buffer.concat(parts)))
        gzip.end(chunk)
        return response
      }) as never
      next()
    })
    app.post(
      '/order',
      idempotent(one.idempotency, async (_, response, tx) =>
        response.json({ order: await one.order(tx, 'A1') }),
      ),
    )
  })
  for (const isReplayed of [false, true]) {
    const response = await send(`${url}/order`)
    expect([response.text, response.isReplayed]).toEqual(['{"order":1}', isReplayed])
    expect(response.headers.get('content-encoding')).toBe('gzip')
  }
  expect(await shop.orders()).toBe(1)
})

test('a conflict in the database calls the handler again, and nothing of its first response is left', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.post(
      '/order',
      idempotent(one.idempotency, async (_, response, tx) => {
        const order = await one.order(tx, 'A1')
        if (order === 1) {
          response.set('x-first', 'yes').status(418).write('first')
          throw Object.assign(new Error('deadlock'), { code: '40P01' })
        }
        response.json({ order })
      }),
    )
  })
  const response = await send(`${url}/order`)
  expect([response.status, response.text, response.headers.get('x-first')]).toEqual([
    200,
    '{"order":2}',
    null,
  ])
  expect(await shop.orders()).toBe(1)
})

test('a conflict in the database calls the handler again only if no second call would find the body of a method without a key consumed', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    const handler = idempotent(one.idempotency, async (request, response, tx) => {
      const order = await one.order(tx, 'A1')
      const bytes = request.readableDidRead ? 'parsed' : (await buffer(request)).toString()
      if (order % 2 === 1) throw Object.assign(new Error('deadlock'), { code: '40P01' })
      response.json({ order, bytes })
    })
    app.put('/unread', handler)
    app.put('/parsed', express.json(), handler)
  })
  const answers = [
    await send(`${url}/unread`, { method: 'PUT', key: '' }),
    await send(`${url}/unread`, { method: 'PUT', key: '' }),
    await send(`${url}/parsed`, { method: 'PUT', key: '' }),
  ]
  expect(answers.map(({ status }) => status)).toEqual([503, 200, 200])
  expect(answers[1]!.text).toBe('{"order":2,"bytes":"{\\"sku\\":\\"A1\\"}"}')
  expect(answers[2]!.text).toBe('{"order":4,"bytes":"parsed"}')
  const bodiless = await fetch(`${url}/unread`, { method: 'PUT' })
  expect([bodiless.status, await bodiless.json()]).toEqual([200, { order: 6, bytes: '' }])
  expect([shop.calls, await shop.orders()]).toEqual([6, 3])
})

test('H6 a body that a parser has consumed without a trace is a 500, and a request over the limit a 413', async () => {
  const { shop, url } = await withRoutes(
    world,
    (app, one) => {
      const handler = idempotent(one.idempotency, async (_, response, tx) => {
        response.json({ order: await one.order(tx, 'A1') })
      })
      app.post('/read', handler)
      app.post('/consumed', (request, _, next) => void request.resume().on('end', () => next()), handler)
      app.post('/bytes', express.raw({ type: '*/*' }), handler)
      app.post('/text', express.text({ type: '*/*' }), handler)
    },
    { maxRequestBytes: 100 },
  )
  expect((await send(`${url}/consumed`)).status).toBe(500)
  for (const path of ['read', 'bytes', 'text']) {
    expect((await send(`${url}/${path}`, { body: `{"a":"${'x'.repeat(100_000)}"}` })).status).toBe(413)
    expect((await send(`${url}/${path}`)).status).toBe(200)
    expect((await send(`${url}/${path}`, { body: '{ "sku": "A1" }' })).isReplayed).toBe(true)
  }
  expect([shop.calls, shop.errors.length]).toEqual([3, 1])
})

test('H15 a client that hangs up in the middle of its body leaves nothing, and its retry runs', async () => {
  const { shop, url } = await withRoutes(world, (app, one) => {
    app.post(
      '/order',
      idempotent(one.idempotency, async (_, response, tx) =>
        response.json({ order: await one.order(tx, 'A1') }),
      ),
    )
  })
  const { hostname, port } = new URL(url)
  const socket = net.connect(Number(port), hostname)
  socket.write(
    'POST /order HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nidempotency-key: k1\r\ncontent-length: 12\r\n\r\n{"sku"',
  )
  await new Promise((resolve) => setTimeout(resolve, 50))
  socket.destroy()
  await once(socket, 'close')
  const retry = await send(`${url}/order`)
  expect([retry.status, retry.isReplayed, shop.calls]).toEqual([200, false, 1])
  expect([await shop.orders(), await shop.transactions(), shop.errors]).toEqual([1, 0, []])
})
