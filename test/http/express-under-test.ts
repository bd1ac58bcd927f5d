import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type Express, type NextFunction, type Request, type Response } from 'express'
import { onTestFinished } from 'vitest'
import type { IdempotencyOptions } from '@txbox/idempotency-key'
import type { Served } from './framework-rules.ts'
import type { Shop, useOrders } from './http-under-test.ts'

export async function served(app: Express): Promise<Served> {
  // What a handler throws reaches the client only by its status.
  app.use((error: { status?: number }, _: Request, response: Response, __: NextFunction) => {
    response.status(error.status ?? 500).json({ failed: true })
  })
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A server of Express for one test. */
export async function withRoutes(
  world: ReturnType<typeof useOrders>,
  register: (app: Express, shop: Shop) => void,
  options: IdempotencyOptions = {},
): Promise<{ shop: Shop; url: string }> {
  const shop = world.create(options)
  const app = express()
  register(app, shop)
  const server = await served(app)
  onTestFinished(() => server.close())
  return { shop, url: server.url }
}
