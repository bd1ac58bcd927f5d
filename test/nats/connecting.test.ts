import net from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { failure, outboxMessage, publish, signal, summary } from '../support/subjects/publishing.ts'
import { useNats } from './nats-under-test.ts'

const nats = useNats()
const MESSAGE = (): ReturnType<typeof outboxMessage> => outboxMessage({ topic: 'orders' })

/** A server that treats each connection in the same way. */
async function listening(serve: (socket: net.Socket) => void): Promise<{ url: string; open: () => number }> {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => undefined)
    socket.resume()
    serve(socket)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    url: `nats://127.0.0.1:${(server.address() as net.AddressInfo).port}`,
    open: () => sockets.size,
  }
}

const INFO = `INFO ${JSON.stringify({ version: '2.10.0', headers: true, max_payload: 1_048_576, proto: 1 })}\r\n`

test('check connects, and tells why it cannot', async () => {
  await nats.publisher().check!({ signal: signal() })
  const away = nats.publisher({
    servers: ['nats://127.0.0.1:9', 'nats://127.0.0.1:10'],
    connectTimeoutMs: 2000,
  })
  await expect(away.check!({ signal: signal() })).rejects.toThrow(
    /Cannot connect to NATS at 127\.0\.0\.1:9, 127\.0\.0\.1:10: connection refused: connect ECONNREFUSED/,
  )
  // A server that is away is no matter while another one answers.
  const half = nats.publisher({ servers: ['nats://127.0.0.1:9', nats.url, 'nats://127.0.0.1:10'] })
  for (let n = 0; n < 5; n += 1) await half.check!({ signal: signal() })
  await expect(half.check!({ signal: AbortSignal.abort(new Error('stop')) })).rejects.toThrow('stop')
})

test('a server that accepts connections and says nothing is an outage, and no connection is left behind', async () => {
  const { url, open } = await listening(() => undefined)
  const publisher = nats.publisher({ servers: url, connectTimeoutMs: 200 })
  for (let n = 0; n < 3; n += 1) {
    expect((await failure(publish(publisher, [MESSAGE()]))).message).toContain('within 200 ms')
  }
  await expect.poll(open).toBe(0)
})

test('an attempt to connect ends when its publisher is closed', async () => {
  const { url, open } = await listening(() => undefined)
  const publisher = nats.publisher({ servers: url })
  const error = failure(publish(publisher, [MESSAGE()]))
  await expect.poll(open).toBe(1)
  await publisher.close!()
  expect((await error).message).toContain('is closed')
  await expect.poll(open).toBe(0)
})

type Serve = (socket: net.Socket) => void

const BREAKS: readonly (readonly [string, Serve])[] = [
  ['before it says anything', (socket) => void socket.resetAndDestroy()],
  ['in the middle of its greeting', (socket) => reset(socket, INFO.slice(0, 10))],
  ['after its greeting', (socket) => reset(socket, INFO)],
  [
    'after the login',
    (socket) => {
      socket.write(INFO)
      socket.once('data', () => void socket.resetAndDestroy())
    },
  ],
  [
    'instead of an answer',
    (socket) => {
      socket.write(INFO)
      socket.on('data', (bytes) => {
        if (String(bytes).includes('PING')) socket.write('PONG\r\n')
        else socket.resetAndDestroy()
      })
    },
  ],
  ['by an end after its greeting', (socket) => void socket.end(INFO)],
  ['by something else than its greeting', (socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')],
  ['by a broken greeting', (socket) => void socket.write('INFO {"version"\r\n')],
]

function reset(socket: net.Socket, after: string): void {
  socket.write(after, () => void socket.resetAndDestroy())
}

test.for(BREAKS)('a server that breaks the connection %s is an outage', async ([, serve]) => {
  const { url, open } = await listening(serve)
  const publisher = nats.publisher({ servers: url, connectTimeoutMs: 500 })
  for (let n = 0; n < 2; n += 1) {
    expect(await failure(publish(publisher, [MESSAGE()]))).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
  }
  await expect.poll(open).toBe(0)
})

test('a call whose signal is aborted while it connects ends at once, and the attempt goes on for the others', async () => {
  const between = await nats.network()
  between.freeze()
  const { host, port } = between.address
  const publisher = nats.publisher({ servers: `nats://${host}:${port}` })
  const abort = new AbortController()
  const stream = await nats.stream()
  const aborted = failure(publish(publisher, [MESSAGE()], abort.signal))
  const other = publish(publisher, [outboxMessage({ topic: `${stream}.a` })])
  abort.abort(new Error('stop now'))
  expect((await aborted).message).toBe('stop now')
  between.thaw()
  expect(summary(await other)).toEqual(['accepted'])
})
