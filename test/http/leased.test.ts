/* oxlint-disable oxc/no-async-endpoint-handlers -- Fastify awaits its handlers. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/idempotency-key'
import { idempotentLeased as onExpress } from '@txbox/idempotency-key/express'
import { fastifyIdempotency } from '@txbox/idempotency-key/fastify'
import { idempotentFetchLeased } from '@txbox/idempotency-key/fetch'
import { idempotentLeased as onHono } from '@txbox/idempotency-key/hono'
import { served } from './express-under-test.ts'
import type { Served } from './framework-rules.ts'
import { useOrders } from './http-under-test.ts'
import { LEASE, leasedRules } from './leased-rules.ts'

const world = useOrders()

async function servedFetch(fetch: (request: Request) => Response | Promise<Response>): Promise<Served> {
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
}

describe('Fastify', () => {
  leasedRules(world, async (shop, charge) => {
    const app = Fastify()
    await app.register(fastifyIdempotency, { idempotency: shop.idempotency })
    app.post('/charge', { config: { idempotency: LEASE } }, async (request, reply) => {
      const { status, headers = {}, json } = await charge(request.idempotency, request.body)
      return reply.code(status).headers(headers).send(json)
    })
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  })
})

describe('Express', () => {
  leasedRules(world, async (shop, charge) => {
    const app = express().use(express.json())
    const handler = onExpress(
      shop.idempotency,
      async (request, response, about) => {
        const { status, headers = {}, json } = await charge(about, request.body)
        response.status(status).set(headers).json(json)
      },
      LEASE,
    )
    app.post('/charge', handler)
    return served(app)
  })
})

describe('Hono', () => {
  leasedRules(world, async (shop, charge) => {
    const app = new Hono()
    app.onError((error, c) => c.json({}, ((error as { status?: number }).status ?? 500) as 500))
    app.post('/charge', onHono(shop.idempotency, LEASE), async (c) => {
      const { status, headers = {}, json } = await charge(c.get('idempotency'), await c.req.json())
      return c.json(json as object, status as 200, headers)
    })
    return servedFetch(app.fetch)
  })
})

describe('fetch', () => {
  leasedRules(world, async (shop, charge) => {
    const POST = idempotentFetchLeased(
      shop.idempotency,
      async (request, about) => {
        const { status, headers = {}, json } = await charge(about, await request.json())
        return Response.json(json, { status, headers })
      },
      LEASE,
    )
    return servedFetch(async (request) => {
      try {
        return await POST(request)
      } catch (error) {
        return Response.json({}, { status: (error as { status?: number }).status ?? 500 })
      }
    })
  })
})

test('a lease out of its bounds is refused where the route is made', async () => {
  const { idempotency } = world.create()
  const wrong = { leaseMs: 999 }
  const unused = (): never => {
    throw new Error('must not be called')
  }
  for (const make of [
    () => onExpress(idempotency, unused, wrong),
    () => onHono(idempotency, wrong),
    () => idempotentFetchLeased(idempotency, unused, wrong),
  ]) {
    expect(make).toThrow(InvalidOptionError)
  }
  for (const given of [wrong, { lease: 1 }, 'yes', 7]) {
    const app = Fastify()
    await app.register(fastifyIdempotency, { idempotency })
    expect(() => app.post('/charge', { config: { idempotency: given as never } }, unused)).toThrow(
      InvalidOptionError,
    )
    await app.close()
  }
})
