import type { AddressInfo } from 'node:net'
import { uuidV7 } from '@txbox/core/internal'
import { createIdempotency } from '@txbox/idempotency-key'
import { idempotent } from '@txbox/idempotency-key/express'
import { fastifyIdempotency } from '@txbox/idempotency-key/fastify'
import { postgres } from '@txbox/postgres'
import express from 'express'
import { getSharedIdempotencyService, idempotency as expressIdempotency } from 'express-idempotency'
import fastify, { type FastifyInstance } from 'fastify'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { Pool, PoolClient } from 'pg'
import type { Variant } from '../measure/interleaved-rates.ts'
import { HttpClient } from './http-client.ts'
import { transaction } from './transaction.ts'

const HOUR = "interval '24 hours'"
const BODY = JSON.stringify({ sku: 'A1', count: 2 })
const ANSWER = JSON.stringify({ ordered: true })
/** Keys that were used before the rounds begin, for the replays. */
const OLD_KEYS = 1000

export const HTTP_VARIANTS = {
  bare,
  byHand,
  plugin,
  replay,
  expressBare,
  expressPlugin,
  expressIdempotencyMemory,
} as const

export type HttpVariantName = keyof typeof HTTP_VARIANTS

/** A server on a port of its own, and what one request to it is. */
export interface HttpVariant extends Variant {
  readonly name: HttpVariantName
  close(): Promise<void>
}

interface Served {
  readonly port: number
  close(): Promise<void>
}

/** Each variant works in the schema of its name. */
export function httpSchemaOf(name: HttpVariantName): string {
  return `http_${name.toLowerCase()}`
}

export async function httpVariant(name: HttpVariantName, pool: Pool): Promise<HttpVariant> {
  const served = await HTTP_VARIANTS[name](httpSchemaOf(name), pool)
  const client = new HttpClient(served.port, BODY)
  const isReplay = name === 'replay'
  const oldKeys = isReplay ? Array.from({ length: OLD_KEYS }, () => uuidV7()) : []
  const post = async (key: string, replayed: boolean): Promise<void> => {
    const { status, isReplayed } = await client.post(key)
    if (status !== 201 || isReplayed !== replayed) {
      throw new Error(`${name}: a request was answered by ${status}${isReplayed ? ' as a replay' : ''}.`)
    }
  }
  for (const key of oldKeys) await post(key, false)
  let next = 0
  return {
    name,
    transaction: () => post(isReplay ? oldKeys[next++ % OLD_KEYS]! : uuidV7(), isReplay),
    async close() {
      client.close()
      await served.close()
    },
  }
}

/** The number of orders that a variant has made when its rounds end. */
export function ordersOf(name: HttpVariantName, requests: number): number {
  return name === 'replay' ? OLD_KEYS : requests
}

function insertOf(schema: string): string {
  return `insert into ${schema}.orders (sku, count) values ($1, $2)`
}

type Order = { sku: string; count: number }

function order(client: Pick<PoolClient, 'query'>, schema: string, body: unknown): Promise<unknown> {
  const { sku, count } = body as Order
  return client.query(insertOf(schema), [sku, count])
}

function bare(schema: string, pool: Pool): Promise<Served> {
  const app = fastify()
  app.post('/orders', async (request, reply) => {
    await order(pool, schema, request.body)
    return reply.code(201).type('application/json').send(ANSWER)
  })
  return serveFastify(app)
}

/** The floor: the statements of the plug-in, and nothing of what it checks, hashes or stores beside them. */
function byHand(schema: string, pool: Pool): Promise<Served> {
  const app = fastify()
  app.post('/orders', async (request, reply) => {
    await transaction(pool, async (client) => {
      const key = request.headers['idempotency-key']
      const claimed = await client.query(
        `insert into ${schema}.inbox (consumer, key, processed_at, expires_at) values ('http', $1, now(), now() + ${HOUR})
         on conflict (consumer, key) do nothing returning processed_at`,
        [key],
      )
      if (claimed.rowCount === 0) throw new Error('The key of a new request was claimed before.')
      await order(client, schema, request.body)
      const stored = JSON.stringify({ s: 201, h: { 'content-type': 'application/json' }, b: ANSWER })
      await client.query(`update ${schema}.inbox set result = $2 where consumer = 'http' and key = $1`, [
        key,
        stored,
      ])
    })
    return reply.code(201).type('application/json').send(ANSWER)
  })
  return serveFastify(app)
}

async function plugin(schema: string, pool: Pool): Promise<Served> {
  const app = fastify()
  const idempotency = createIdempotency({ database: postgres({ db: pool, schema }) })
  await app.register(fastifyIdempotency, { idempotency })
  app.post('/orders', { config: { idempotency: true } }, async (request, reply) => {
    await order(request.idempotency.tx as PoolClient, schema, request.body)
    return reply.code(201).type('application/json').send(ANSWER)
  })
  return serveFastify(app)
}

/** The same server, which is asked for the responses of earlier requests. */
function replay(schema: string, pool: Pool): Promise<Served> {
  return plugin(schema, pool)
}

function expressBare(schema: string, pool: Pool): Promise<Served> {
  const app = express().use(express.json())
  app.post('/orders', (request, response, next) => {
    order(pool, schema, request.body).then(() => answer(response), next)
  })
  return serve(app)
}

function expressPlugin(schema: string, pool: Pool): Promise<Served> {
  const idempotency = createIdempotency({ database: postgres({ db: pool, schema }) })
  const app = express()
  app.post(
    '/orders',
    express.json(),
    idempotent(idempotency, async (request, response, tx) => {
      await order(tx, schema, request.body)
      answer(response)
    }),
  )
  return serve(app)
}

/** Remembers responses in the memory of its process, and nothing of them together with the order. */
function expressIdempotencyMemory(schema: string, pool: Pool): Promise<Served> {
  const app = express().use(express.json(), expressIdempotency())
  app.post('/orders', (request, response, next) => {
    if (getSharedIdempotencyService().isHit(request)) return
    order(pool, schema, request.body).then(() => answer(response), next)
  })
  return serve(app)
}

function answer(response: express.Response): void {
  response.status(201).type('application/json').send(ANSWER)
}

async function serveFastify(app: FastifyInstance): Promise<Served> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { port: portOf(app.server), close: () => app.close() }
}

async function serve(listener: RequestListener): Promise<Served> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: portOf(server),
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}
