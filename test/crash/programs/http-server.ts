// A server of HTTP requests with an Idempotency-Key, each of which writes one effect.
import http from 'node:http'
import {
  createIdempotency,
  type HttpRequest,
  type HttpResponse,
  type LeasedWork,
} from '@txbox/idempotency-key'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface HttpServerConfig extends ProgramConfig {
  readonly port: number
  readonly effect: string
  /** Set for a handler without a transaction, whose effect counts each call of another system with its idempotency key. */
  readonly leaseMs?: number
}

const config = configOf<HttpServerConfig>()
const mortal = new Mortal(config.fate)
const handle = config.url.startsWith('mysql:') ? await onMysql() : onPostgres()

/** Handles one request. */
type Handle = (request: HttpRequest) => Promise<HttpResponse>

function onPostgres(): Handle {
  const pool = mortal.pool(config, 3)
  const idempotency = createIdempotency({ database: postgres({ db: pool }) })
  const { leaseMs } = config
  if (leaseMs !== undefined) {
    const write = (name: string): Promise<unknown> =>
      pool.query('insert into public.effects (name) values ($1)', [name])
    return (request) => idempotency.handleLeased(request, calling(write), { leaseMs })
  }
  return (request) =>
    idempotency.handle(request, async (tx) => {
      mortal.reach('before the effect')
      await tx.query('insert into public.effects (name) values ($1)', [config.effect])
      mortal.reach('after the effect')
      return responseOf()
    })
}

async function onMysql(): Promise<Handle> {
  const pool = mortalMysqlPool(mortal, config, 3)
  // By this lock a test finds out whether the server still runs a statement of a dead program.
  const connection = await pool.getConnection()
  await connection.query('select get_lock(?, 0)', [`http-server ${process.pid}`])
  const idempotency = createIdempotency({ database: mysql({ db: pool }) })
  const { leaseMs } = config
  if (leaseMs !== undefined) {
    const write = (name: string): Promise<unknown> =>
      pool.query('insert into effects (name) values (?)', [name])
    return (request) => idempotency.handleLeased(request, calling(write), { leaseMs })
  }
  return (request) =>
    idempotency.handle(request, async (tx) => {
      mortal.reach('before the effect')
      await tx.query('insert into effects (name) values (?)', [config.effect])
      mortal.reach('after the effect')
      return responseOf()
    })
}

/** A handler that calls another system. */
function calling(write: (name: string) => Promise<unknown>): LeasedWork {
  return async ({ idempotencyKey }) => {
    mortal.reach('before the effect')
    await write(`${config.effect} ${idempotencyKey}`)
    await write(config.effect)
    mortal.reach('after the effect')
    return responseOf()
  }
}

/** Which process has made the response, so that a test sees who did. */
function responseOf(): HttpResponse {
  return { status: 201, headers: { 'content-type': 'text/plain' }, body: `by ${process.pid} `.repeat(100) }
}

async function respond(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const { method = '', url: path = '', headers } = request
  const answer = await handle({ method, path, headers, body: Buffer.concat(chunks) })
  mortal.reach('before the first byte')
  const body = answer.body as Buffer
  response.writeHead(answer.status, { ...answer.headers, 'content-length': body.byteLength })
  response.write(body.subarray(0, 10), () => {
    mortal.reach('in the middle of the response')
    response.end(body.subarray(10))
  })
}

http
  .createServer((request, response) => void respond(request, response))
  .listen(config.port, '127.0.0.1', () => report('started'))
