// A service that answers HTTP requests by their Idempotency-Key: what its handler writes, the claim of the key and the response
// commit together. Requests for payments are handled under a lease.
import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import type { ConnectedDatabase } from '@txbox/core'
import { createIdempotency, type HttpRequest, type HttpResponse } from '@txbox/idempotency-key'
import { clockExpression } from '../database/chaos-tables.ts'
import type { Sql } from '../database/sql.ts'
import { charge } from './charge.ts'
import { withDatabase } from './database-pool.ts'
import { PAYMENTS, socketOf, type Order } from './http-protocol.ts'
import { suffer } from './illness.ts'
import { HTTP_POOL_SIZE } from './limits.ts'
import { Worker } from './worker.ts'

/** How many of the services that are about to answer a killing request die after the commit. */
const DIES_AFTER_COMMIT = 0.3
const LONGEST_END_MS = 10_000

const worker = new Worker()
const { draw } = worker
const { slot, engine, leaseMs, httpFolder } = worker.config
/** The two services differ in what users choose: the handle, and what happens to a request that is being handled elsewhere. */
const isFirst = slot.endsWith('1')
const clock = clockExpression(engine)

await withDatabase(worker, HTTP_POOL_SIZE, isFirst ? 'driver' : 'kysely', work)
await worker.end()

async function work<Tx>(database: ConnectedDatabase<Tx>, sqlOf: (tx: Tx) => Sql): Promise<void> {
  const idempotency = createIdempotency({
    database,
    // A handler that hangs may take longer. On an overloaded machine the lease is longer too.
    timeoutMs: leaseMs * 2,
    whileInFlight: isFirst ? 'refuse' : { waitMs: 500 },
  })
  idempotency.on('error', ({ error }) => worker.failed(error))
  await serve(async (request) => {
    const order = JSON.parse(Buffer.from(request.body).toString()) as Order
    const response = await (request.path === PAYMENTS
      ? idempotency.handleLeased(request, (about) => charge(worker, about, order), { leaseMs })
      : idempotency.handle(request, (tx, { key }) => accept(sqlOf(tx), key!, order)))
    if (order.ill === 'kill' && !worker.mode.healed && draw.chance(DIES_AFTER_COMMIT)) {
      process.kill(process.pid, 'SIGKILL')
    }
    return response
  })
}

/** Writes the effect of a request, then suffers from it: if the handler fails, the effect must be rolled back. */
async function accept(sql: Sql, key: string, { ill }: Order): Promise<HttpResponse> {
  // Another call of the handler would answer with another id.
  const id = randomUUID()
  await sql.query(
    `insert into chaos_http_effects (request_key, response_id, worker, began_ms, ended_ms)
     values (?, ?, ?, ${clock}, 0)`,
    [key, id, worker.name],
  )
  // While the transaction is open, the client sends the request again.
  if (draw.chance(0.2)) await pause(draw.integer(0, 150))
  await suffer(worker, ill)
  await sql.query(`update chaos_http_effects set ended_ms = ${clock} where response_id = ?`, [id])
  return {
    status: 201,
    headers: { 'content-type': 'application/json', location: `/orders/${id}` },
    body: JSON.stringify({ id }),
  }
}

/** Answers requests until the worker has to end, and then those that have arrived. */
async function serve(handle: (request: HttpRequest) => Promise<HttpResponse>): Promise<void> {
  const server = createServer((request, response) => {
    answer(request, response, handle).catch((error: unknown) => worker.failed(error))
  })
  const socket = socketOf(httpFolder, slot)
  // A process that was killed has left it.
  rmSync(socket, { force: true })
  await new Promise<void>((resolve) => server.listen(socket, resolve))
  worker.ready()
  await new Promise<void>((resolve) => {
    if (worker.ending.aborted) resolve()
    worker.ending.addEventListener('abort', () => resolve(), { once: true })
  })
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  await Promise.race([closed, pause(LONGEST_END_MS)])
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  handle: (request: HttpRequest) => Promise<HttpResponse>,
): Promise<void> {
  const { method = '', url: path = '', headers } = request
  const body = await buffer(request)
  let given: HttpResponse
  try {
    given = await handle({ method, path, headers, body })
    worker.count(given.headers?.['idempotent-replayed'] === undefined ? 'answered' : 'replayed')
  } catch (error) {
    // The handler's own error, as a framework answers it.
    worker.failed(error)
    given = { status: 500 }
  }
  if (draw.chance(worker.mode.redeliver)) {
    worker.count('answers lost')
    request.socket.destroy()
    return
  }
  response.writeHead(given.status, given.headers as OutgoingHttpHeaders).end(given.body)
}
