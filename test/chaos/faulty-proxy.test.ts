import { once } from 'node:events'
import net from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startFaultyProxy, type FaultyProxy } from '../../chaos/network/faulty-proxy.ts'
import { until } from '../support/worlds/until.ts'

/** One end of a connection and the bytes that it has received. */
class End {
  readonly socket: net.Socket
  got = Buffer.alloc(0)
  ended = false
  error: NodeJS.ErrnoException | undefined

  constructor(socket: net.Socket) {
    this.socket = socket
    socket.on('data', (bytes) => (this.got = Buffer.concat([this.got, bytes])))
    socket.on('end', () => (this.ended = true))
    socket.on('error', (error) => (this.error = error))
  }

  async has(text: string): Promise<void> {
    await until(
      async () => this.got.toString() === text,
      () => `'${text}' has come; '${this.got.toString()}' has`,
    )
  }

  async isClosed(): Promise<void> {
    if (!this.socket.closed) await new Promise((resolve) => void this.socket.once('close', resolve))
  }
}

let listener: net.Server
let accepted: End[]
let proxy: FaultyProxy
let ends: End[]

beforeEach(async () => {
  accepted = []
  ends = []
  listener = net.createServer({ allowHalfOpen: true }, (socket) => void accepted.push(new End(socket)))
  await new Promise<void>((resolve) => void listener.listen(0, '127.0.0.1', resolve))
  proxy = await startFaultyProxy((listener.address() as net.AddressInfo).port)
})
afterEach(async () => {
  await proxy.close()
  for (const { socket } of [...ends, ...accepted]) socket.destroy()
  listener.close()
})

function connect(): End {
  const end = new End(net.connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen: true }))
  ends.push(end)
  return end
}

/** @returns a client, and its other end at the server */
async function pair(): Promise<[End, End]> {
  const before = accepted.length
  const client = connect()
  await until(
    async () => accepted.length > before,
    () => 'the server has a connection',
  )
  return [client, accepted[before]!]
}

/** Resolves when bytes on a separate connection have passed, by which time other bytes would have passed too. */
async function passedElsewhere(): Promise<void> {
  for (let round = 0; round < 5; round++) await new Promise((resolve) => setImmediate(resolve))
  const plain = net.createServer((socket) => void socket.pipe(socket))
  await new Promise<void>((resolve) => void plain.listen(0, '127.0.0.1', resolve))
  const socket = net.connect((plain.address() as net.AddressInfo).port, '127.0.0.1')
  for (let round = 0; round < 5; round++) {
    socket.write('x')
    await once(socket, 'data')
  }
  socket.destroy()
  plain.close()
}

test('the proxy forwards the bytes and the end of each direction', async () => {
  const [client, server] = await pair()
  client.socket.end('question')
  await server.has('question')
  await until(
    async () => server.ended,
    () => 'the server sees the end',
  )
  server.socket.end('answer')
  await client.has('answer')
  await client.isClosed()
  expect(client.error).toBeUndefined()
  await until(
    async () => proxy.connections === 0,
    () => 'the proxy has forgotten the connection',
  )
})

test.each([1, 7, 1000, 65_537])('a connection is reset after %i bytes, to the byte', async (bytes) => {
  const [client, server] = await pair()
  client.socket.write('before')
  await server.has('before')
  proxy.cutAfterBytes(bytes)
  client.socket.write(Buffer.alloc(bytes + 100, 'x'))
  await Promise.all([client.isClosed(), server.isClosed()])
  expect(server.got.length).toBe('before'.length + bytes)
  expect(server.error?.code).toBe('ECONNRESET')
  expect(proxy.connections).toBe(0)
})

test('the bytes of both directions count, and a later connection is not cut', async () => {
  const [client, server] = await pair()
  proxy.cutAfterBytes(5)
  const [later, there] = await pair()
  client.socket.write('abc')
  await server.has('abc')
  server.socket.write('defg')
  await client.isClosed()
  expect(client.got.toString()).toBe('de')
  expect(client.error?.code).toBe('ECONNRESET')
  later.socket.write('not this one')
  await there.has('not this one')
})

test('while one direction is silent, the other one continues; the held bytes are forwarded in order afterwards', async () => {
  const [client, server] = await pair()
  proxy.silence('toClient', true)
  const [later, there] = await pair()
  for (const [near, far] of [
    [client, server],
    [later, there],
  ] as const) {
    near.socket.write('asked')
    await far.has('asked')
    far.socket.write('one ')
    far.socket.write('two')
    far.socket.end()
    await passedElsewhere()
    expect(near.got.toString()).toBe('')
    expect(near.ended).toBe(false)
  }
  proxy.silence('toClient', false)
  await client.has('one two')
  await later.has('one two')
  await until(
    async () => client.ended,
    () => 'the end has come too',
  )
})

test('the client does not see a reset by the server while that direction is silent', async () => {
  const [client, server] = await pair()
  proxy.silence('toClient', true)
  server.socket.resetAndDestroy()
  await passedElsewhere()
  expect(client.error).toBeUndefined()
  proxy.silence('toClient', false)
  await client.isClosed()
  expect(client.error?.code).toBe('ECONNRESET')
})

test('a halted proxy accepts connections and forwards nothing; afterwards it forwards everything that it held', async () => {
  const [client, server] = await pair()
  proxy.halt(true)
  client.socket.write('held')
  const later = connect()
  later.socket.write('held too')
  await once(later.socket, 'connect')
  await passedElsewhere()
  expect(accepted).toHaveLength(1)
  expect(server.got.toString()).toBe('')
  proxy.halt(false)
  await server.has('held')
  await until(
    async () => accepted.length === 2,
    () => 'the connection has come',
  )
  await accepted[1]!.has('held too')
})

test('latency delays each direction, and the order is kept when the latency ends', async () => {
  const [client, server] = await pair()
  proxy.latencyMs(150)
  const startedAt = performance.now()
  client.socket.write('slow ')
  await new Promise((resolve) => setImmediate(resolve))
  server.socket.write('answer')
  await until(
    async () => proxy.connections === 1 && server.got.length > 0,
    () => 'the bytes have come',
  )
  expect(performance.now() - startedAt).toBeGreaterThan(145)
  client.socket.write('first ')
  await passedElsewhere()
  proxy.latencyMs(0)
  client.socket.write('second')
  await server.has('slow first second')
  await client.has('answer')
})

test('a refusal comes from the operating system, does not affect open connections, and ends', async () => {
  const [client, server] = await pair()
  proxy.refuse(true)
  await until(
    async () => {
      const refused = connect()
      await refused.isClosed()
      return refused.error?.code === 'ECONNREFUSED'
    },
    () => 'connections are refused',
  )
  client.socket.write('still here')
  await server.has('still here')
  proxy.refuse(false)
  const { port } = proxy
  await until(
    async () => {
      const again = connect()
      const connected = new Promise((resolve) => void again.socket.once('connect', resolve))
      await Promise.race([connected, again.isClosed()])
      return again.error === undefined
    },
    () => `connections to ${port} are taken again`,
  )
})

test('a cut resets all connections; a new target applies to new connections', async () => {
  const [client, server] = await pair()
  const others: End[] = []
  const other = net.createServer((socket) => void others.push(new End(socket)))
  await new Promise<void>((resolve) => void other.listen(0, '127.0.0.1', resolve))
  proxy.retarget((other.address() as net.AddressInfo).port)
  client.socket.write('old')
  await server.has('old')
  const now = connect()
  now.socket.write('new')
  await until(
    async () => others[0]?.got.toString() === 'new',
    () => 'the other server has it',
  )
  proxy.cutAll()
  for (const end of [client, server, now, others[0]!]) {
    await end.isClosed()
    expect(end.error?.code).toBe('ECONNRESET')
  }
  other.close()
})

test('if no server listens, the connection of the client is reset', async () => {
  listener.close()
  await once(listener, 'close')
  const client = connect()
  await client.isClosed()
  expect(client.error?.code).toBe('ECONNRESET')
})
