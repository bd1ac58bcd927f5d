import net from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import {
  BrokerUnavailableError,
  DatabaseAccessError,
  DatabaseUnavailableError,
  DedupStoreUnavailableError,
  SchemaError,
  TransactionConflictError,
  type OutboxMessage,
  type PublishResult,
} from '@txbox/core'
import { publishEach } from '@txbox/relay'

const { signal } = new AbortController()

function messages(...topics: string[]): OutboxMessage[] {
  return topics.map((topic, n) => ({ id: String(n), topic }) as OutboxMessage)
}

function withCode(code: string): Error {
  return Object.assign(new Error(`connect ${code}`), { code })
}

/** A port of this machine on which nothing listens. */
async function closedPort(): Promise<number> {
  const server = net.createServer()
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

test('O15 an endpoint that refuses connections is an outage, with its reason', async () => {
  const port = await closedPort()
  const publisher = publishEach(async () => void (await fetch(`http://127.0.0.1:${port}/`)))
  const failure = await publisher.publish(messages('a', 'b'), { signal }).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(BrokerUnavailableError)
  expect(String(failure)).toContain(`fetch failed: connect ECONNREFUSED 127.0.0.1:${port}`)
})

test('O15 an endpoint that cuts the connection before it answers is an outage', async () => {
  const server = net.createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as net.AddressInfo
  const publisher = publishEach(
    async () => void (await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: 'x' })),
  )
  await expect(publisher.publish(messages('a'), { signal })).rejects.toThrow(BrokerUnavailableError)
})

for (const [name, error] of Object.entries({
  ECONNREFUSED: withCode('ECONNREFUSED'),
  ENOTFOUND: withCode('ENOTFOUND'),
  EAI_AGAIN: withCode('EAI_AGAIN'),
  ECONNRESET: withCode('ECONNRESET'),
  ETIMEDOUT: withCode('ETIMEDOUT'),
  EPIPE: withCode('EPIPE'),
  'a connect time-out of undici': withCode('UND_ERR_CONNECT_TIMEOUT'),
  'a cause': new Error('failed', { cause: new Error('fetch failed', { cause: withCode('ECONNREFUSED') }) }),
  'an AggregateError': new AggregateError([withCode('ECONNREFUSED'), withCode('ENETUNREACH')], ''),
  'a BrokerUnavailableError': new BrokerUnavailableError('away'),
})) {
  test(`O15 a throw of ${name} is an outage, and no attempt is counted`, async () => {
    const publisher = publishEach(() => Promise.reject(error))
    await expect(publisher.publish(messages('a'), { signal })).rejects.toThrow(BrokerUnavailableError)
  })
}

for (const error of [
  new DatabaseUnavailableError('away'),
  new DatabaseAccessError('no right to the inbox'),
  new SchemaError('no tables'),
  new DedupStoreUnavailableError('away'),
]) {
  test(`O15 a throw of a ${error.name} is an outage, with this error`, async () => {
    const publisher = publishEach(() => Promise.reject(error))
    await expect(publisher.publish(messages('a'), { signal })).rejects.toBe(error)
  })
}

test.for([
  ['PostgreSQL', { code: '53100' }],
  ['MySQL', { errno: 1114, code: 'ER_RECORD_FILE_FULL' }],
])(
  'O15 a handler whose statement finds the disk of %s full is an outage, with its reason',
  async ([, is]) => {
    const full = Object.assign(new Error('No space left on device'), is)
    const publisher = publishEach(() => Promise.reject(new Error('of a library', { cause: full })))
    const failure = await publisher.publish(messages('a'), { signal }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(BrokerUnavailableError)
    expect(String(failure)).toContain('No space left on device')
  },
)

test('O15 a handler whose server is read-only is an outage; a handler whose own transaction is READ ONLY is not', async () => {
  const text = 'The MySQL server is running with the --read-only option so it cannot execute this statement'
  const server = publishEach(() => Promise.reject(Object.assign(new Error(text), { errno: 1290 })))
  await expect(server.publish(messages('a'), { signal })).rejects.toThrow(BrokerUnavailableError)
  const readOnly = Object.assign(new Error('cannot execute INSERT'), { code: '25006' })
  const transaction = publishEach(() => Promise.reject(readOnly))
  expect(await transaction.publish(messages('a'), { signal })).toMatchObject([{ status: 'rejected' }])
})

test('O15 a transaction conflict is a rejection', async () => {
  const publisher = publishEach(() => Promise.reject(new TransactionConflictError('deadlock')))
  expect(await publisher.publish(messages('a'), { signal })).toMatchObject([
    { status: 'rejected', retryable: true },
  ])
})

test('O15 an error code that is not a failure to connect is a rejection', async () => {
  const publisher = publishEach(() => Promise.reject(withCode('ERR_INVALID_URL')))
  expect(await publisher.publish(messages('a'), { signal })).toMatchObject([
    { status: 'rejected', retryable: true },
  ])
})

test('O15 while other destinations are reached, an unavailable one delays only its own messages', async () => {
  let isAway = true
  const publisher = publishEach(({ topic }) => {
    if (topic === 'away' && isAway) throw withCode('ECONNREFUSED')
  })
  // After the first failure, all destinations may be unavailable.
  await expect(publisher.publish(messages('away'), { signal })).rejects.toThrow(BrokerUnavailableError)
  expect(await publisher.publish(messages('b'), { signal })).toEqual([{ status: 'accepted' }])
  expect(await publisher.publish(messages('away', 'b'), { signal })).toMatchObject([
    { status: 'rejected', retryable: true, counted: false, retryAfterMs: 5000 },
    { status: 'accepted' },
  ])
  isAway = false
  expect(await publisher.publish(messages('away'), { signal })).toEqual([{ status: 'accepted' }])
})

test('O15 in one call, an unavailable destination delays only its own messages, wherever they are', async () => {
  for (const concurrency of [1, 10]) {
    const publisher = publishEach(
      ({ topic }) => {
        if (topic === 'away') throw withCode('ECONNREFUSED')
      },
      { concurrency },
    )
    for (const call of [messages('away', 'b'), messages('b', 'away')]) {
      const results = await publisher.publish(call, { signal })
      for (const [n, { topic }] of call.entries()) {
        expect(results[n]).toMatchObject(
          topic === 'away' ? { status: 'rejected', counted: false } : { status: 'accepted' },
        )
      }
    }
  }
})

test('O15 behind many messages of an unavailable destination, a message of another topic is tried', async () => {
  const publisher = publishEach(({ topic }) => {
    if (topic === 'away') throw withCode('ECONNREFUSED')
  })
  const call = messages(...Array.from({ length: 100 }, () => 'away'), 'b')
  await expect(publisher.publish(call, { signal })).rejects.toThrow(BrokerUnavailableError)
  const results = await publisher.publish(call, { signal })
  expect(results[100]).toEqual({ status: 'accepted' })
  for (const result of results.slice(0, 100)) expect(result).toMatchObject({ counted: false })
})

test('O15 an unavailable destination is no outage while others are reached every few seconds', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const publisher = publishEach(({ topic }) => {
    if (topic === 'away') throw withCode('ECONNREFUSED')
  })
  await expect(publisher.publish(messages('away'), { signal })).rejects.toThrow(BrokerUnavailableError)
  for (let n = 0; n < 10; n += 1) {
    vi.advanceTimersByTime(2500)
    await publisher.publish(messages('b'), { signal })
    vi.advanceTimersByTime(2500)
    for (const call of [messages('away'), messages('away')]) {
      expect(await publisher.publish(call, { signal })).toMatchObject([
        { counted: false, retryAfterMs: 5000 },
      ])
    }
  }
})

test('O15 when the last destination becomes unavailable in a call, few messages are tried, and it is an outage', async () => {
  let tried = 0
  const publisher = publishEach(() => {
    tried += 1
    if (tried > 50) throw withCode('ECONNREFUSED')
  })
  const call = messages(...Array.from({ length: 1000 }, () => 'a'))
  await expect(publisher.publish(call, { signal })).rejects.toThrow(BrokerUnavailableError)
  expect(tried).toBeLessThanOrEqual(70)
})

test('O15 when no message gets through any more, failures are an outage again', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let isUp = true
  const publisher = publishEach(({ topic }) => {
    if (topic === 'away' || !isUp) throw withCode('ECONNREFUSED')
  })
  await expect(publisher.publish(messages('away'), { signal })).rejects.toThrow(BrokerUnavailableError)
  await publisher.publish(messages('b'), { signal })
  await publisher.publish(messages('away'), { signal })
  isUp = false
  // For a while no message was accepted.
  vi.advanceTimersByTime(10_000)
  await expect(publisher.publish(messages('b'), { signal })).rejects.toThrow(BrokerUnavailableError)
  await expect(publisher.publish(messages('away'), { signal })).rejects.toThrow(BrokerUnavailableError)
})

test('O10 a result is reported as soon as it is known; an outage leaves the others without one', async () => {
  const answers: [number, PublishResult][] = []
  const publisher = publishEach(
    ({ topic }) => {
      if (topic === 'away') throw withCode('ECONNREFUSED')
    },
    { concurrency: 1 },
  )
  const answered = (index: number, result: PublishResult): void => void answers.push([index, result])
  await expect(publisher.publish(messages('a', 'b', 'away', 'away'), { signal, answered })).rejects.toThrow(
    BrokerUnavailableError,
  )
  expect(answers).toEqual([
    [0, { status: 'accepted' }],
    [1, { status: 'accepted' }],
  ])
})

test('O17 a call that throws because it took too long is a rejection; a call that throws because the relay stops is not', async () => {
  const untilAborted = (options: { signal: AbortSignal }): Promise<never> =>
    new Promise((_, reject) => {
      options.signal.addEventListener('abort', () => reject(options.signal.reason as Error))
    })
  const publisher = publishEach((_, options) => untilAborted(options))
  const late = AbortSignal.timeout(5)
  expect(await publisher.publish(messages('a'), { signal: late })).toMatchObject([
    { status: 'rejected', retryable: true },
  ])
  const stopping = new AbortController()
  const stopped = publisher.publish(messages('a'), { signal: stopping.signal })
  stopping.abort(new Error('the relay stops'))
  await expect(stopped).rejects.toThrow('the relay stops')
})
