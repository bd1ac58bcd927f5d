import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { onTestFinished } from 'vitest'
import type { IdempotencyOptions } from '@txbox/idempotency-key'
import { fastifyIdempotency } from '@txbox/idempotency-key/fastify'
import type { Shop, useOrders } from './http-under-test.ts'

export const ONCE = { config: { idempotency: true } } as const

/** A server of Fastify for one test. */
export async function withRoutes(
  world: ReturnType<typeof useOrders>,
  register: (app: FastifyInstance, shop: Shop) => void,
  options: IdempotencyOptions & { readonly server?: FastifyServerOptions } = {},
): Promise<{ shop: Shop; url: string }> {
  const { server, ...given } = options
  const shop = world.create(given)
  const app = Fastify(server)
  await app.register(fastifyIdempotency, { idempotency: shop.idempotency })
  register(app, shop)
  onTestFinished(() => app.close())
  return { shop, url: await app.listen({ port: 0, host: '127.0.0.1' }) }
}
