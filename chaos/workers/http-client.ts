// A client of the HTTP services: sends each request, with a key of its own, until the answer is 2xx. Some requests are sent several
// times at the same time, and some again after they were answered. The log has all requests and answers.
import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import {
  HTTP_SERVICES,
  ORDERS,
  PAYMENTS,
  httpLogOf,
  socketOf,
  type AnsweredEntry,
  type HttpLogEntry,
  type Order,
} from './http-protocol.ts'
import { Worker, steadyNow } from './worker.ts'
import type { Illness } from './worker-protocol.ts'

const LANES = 3
const PAUSE_MS = 120
/** How long the client waits for an answer before it sends the request again; some of the time it hangs up early. */
const PATIENCE_MS = 2000
const HANGS_UP = 0.05
const SHORTEST_PATIENCE_MS = 5
/** How many requests are made to fail while messages are. Each death of a service costs a start of its process. */
const KILLING = 0.3
const ILL = 0.6
/** How many requests are handled under a lease. */
const LEASED = 0.4
/** How many answered requests are remembered to be sent again. */
const MOST_ANSWERED = 200

interface Sent {
  readonly path: string
  readonly key: string
  readonly order: Order
}

type Answer = Omit<AnsweredEntry, 'what' | 'call' | 'atMs'>

const worker = new Worker()
const { draw } = worker
const { httpFolder } = worker.config
const answered: Sent[] = []

worker.ready()
await Promise.all(Array.from({ length: LANES }, () => lane()))
await worker.end()

async function lane(): Promise<void> {
  while (!worker.ending.aborted) {
    if (answered.length > 0 && draw.chance(0.2)) await untilAnswered(draw.pick(answered))
    else await sendNew()
    await pause(draw.integer(0, PAUSE_MS * 2))
  }
}

async function sendNew(): Promise<void> {
  const ill = illness()
  const order: Order = { ...(ill !== undefined && { ill }), padding: 'x'.repeat(draw.integer(0, 200)) }
  const sent = { path: draw.chance(LEASED) ? PAYMENTS : ORDERS, key: `request-${randomUUID()}`, order }
  const times = ill !== 'kill' && draw.chance(0.2) ? draw.integer(2, 3) : 1
  await Promise.all(Array.from({ length: times }, () => untilAnswered(sent)))
  if (ill === 'kill') return
  answered.push(sent)
  if (answered.length > MOST_ANSWERED) answered.shift()
}

function illness(): Illness | undefined {
  const { ill } = worker.mode
  return ill !== undefined && draw.chance(ill === 'kill' ? KILLING : ILL) ? ill : undefined
}

/** Sends a request until the answer is 2xx, also when the worker has to end. */
async function untilAnswered(sent: Sent): Promise<void> {
  const { path, key, order } = sent
  const call = randomUUID()
  const { ill } = order
  log({ what: 'sent', call, path, key, ...(ill !== undefined && { ill }), atMs: steadyNow() })
  for (;;) {
    const answer = await post(sent).catch((error: unknown) => worker.failed(error))
    if (answer) {
      log({ what: 'answered', call, ...answer, atMs: steadyNow() })
      worker.count(`answers ${answer.status}`)
      if (answer.status >= 200 && answer.status < 300) return
    }
    await pause(draw.integer(30, 300))
  }
}

async function post({ path, key, order }: Sent): Promise<Answer> {
  const service = draw.pick(HTTP_SERVICES)
  const patienceMs = draw.chance(HANGS_UP) ? draw.integer(SHORTEST_PATIENCE_MS, 100) : PATIENCE_MS
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const posted = request({
      socketPath: socketOf(httpFolder, service),
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      // A new connection each time: a service that ends need not wait for connections without a request.
      agent: false,
      signal: AbortSignal.timeout(patienceMs),
    })
    // An error after the response is an error of its body.
    posted.on('response', resolve).on('error', reject)
    posted.end(JSON.stringify(order))
  })
  const body = await text(response)
  const isReplayed = response.headers['idempotent-replayed'] !== undefined
  const { id } = (body === '' ? {} : JSON.parse(body)) as { readonly id?: string }
  return { service, status: response.statusCode ?? 0, ...(id !== undefined && { id }), isReplayed }
}

/** At once, so that the driver sees a request before it can have an effect. */
function log(entry: HttpLogEntry): void {
  appendFileSync(httpLogOf(httpFolder), `${JSON.stringify(entry)}\n`)
}
