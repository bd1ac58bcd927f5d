import { describe, expect, test } from 'vitest'
import { InvalidOptionError, PermanentError, RetryLaterError, publishEach } from '@txbox/relay'
import type { OutboxMessage } from '@txbox/relay'
import { Gate } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const { signal } = new AbortController()

describe('without a relay', () => {
  test('each message is one call with one result, in order', async () => {
    const seen: string[] = []
    const done = Array.from({ length: 6 }, () => Promise.withResolvers<void>())
    done[5]!.resolve()
    const publisher = publishEach(async (message) => {
      // The later ones finish first.
      const n = Number(message.id)
      await done[n + 1]!.promise
      seen.push(message.id)
      done[n]!.resolve()
      if (n === 2) throw new Error('refused')
    })
    const results = await publisher.publish(messages(5), { signal })
    expect(seen).toEqual(['4', '3', '2', '1', '0'])
    expect(results.map(({ status }) => status)).toEqual([
      'accepted',
      'accepted',
      'rejected',
      'accepted',
      'accepted',
    ])
  })

  test.for([
    ['an Error', new Error('refused'), { retryable: true }],
    ['undefined', undefined, { retryable: true }],
    ['text', 'refused', { retryable: true }],
    ['a PermanentError', new PermanentError('never'), { retryable: false }],
    [
      'a RetryLaterError',
      new RetryLaterError({ retryAfterMs: 1234 }),
      { retryable: true, retryAfterMs: 1234 },
    ],
    ['a RetryLaterError without a time', new RetryLaterError(), { retryable: true }],
  ] as const)('a throw is a rejection of that message: %s', async ([, error, expected]) => {
    for (const fail of [
      () => {
        throw error
      },
      () => Promise.reject(error),
    ]) {
      const results = await publishEach(fail).publish(messages(1), { signal })
      expect(results).toEqual([{ status: 'rejected', error, ...expected }])
    }
  })

  test('a PermanentError of another installed copy counts as well', async () => {
    const foreign = Object.defineProperty(
      Object.assign(new Error('never'), { code: 'TXBOX_PERMANENT' }),
      Symbol.for('txbox.error'),
      {
        value: true,
      },
    )
    const fail = (): never => {
      throw foreign
    }
    expect(await publishEach(fail).publish(messages(1), { signal })).toMatchObject([
      { status: 'rejected', retryable: false },
    ])
  })

  test.for([
    [undefined, 10],
    [1, 1],
    [3, 3],
    [50, 12],
  ] as const)('concurrency %s: %s calls at a time', async ([concurrency, atATime]) => {
    let running = 0
    let most = 0
    const gate = new Gate()
    const publisher = publishEach(
      async () => {
        running += 1
        most = Math.max(most, running)
        await gate.pass()
        await Promise.resolve()
        running -= 1
      },
      { ...(concurrency !== undefined && { concurrency }) },
    )
    const done = publisher.publish(messages(12), { signal })
    await gate.reached(atATime)
    gate.open()
    expect((await done).length).toBe(12)
    expect(most).toBe(atATime)
  })

  test('with concurrency 1 the calls follow one another in order', async () => {
    const events: string[] = []
    const publisher = publishEach(
      async ({ id }) => {
        events.push(`begin ${id}`)
        await Promise.resolve()
        events.push(`end ${id}`)
      },
      { concurrency: 1 },
    )
    await publisher.publish(messages(3), { signal })
    expect(events).toEqual(['begin 0', 'end 0', 'begin 1', 'end 1', 'begin 2', 'end 2'])
  })

  test('the signal is passed on, and no call begins after its abort', async () => {
    const controller = new AbortController()
    const seen: string[] = []
    const publisher = publishEach(
      ({ id }, options) => {
        expect(options.signal).toBe(controller.signal)
        seen.push(id)
        if (id === '1') controller.abort()
      },
      { concurrency: 1 },
    )
    await expect(publisher.publish(messages(5), { signal: controller.signal })).rejects.toThrow()
    expect(seen).toEqual(['0', '1'])
  })

  test('without messages there is no call', async () => {
    const never = (): never => {
      throw new Error('called')
    }
    expect(await publishEach(never).publish([], { signal })).toEqual([])
  })

  test.for([
    [{ concurrency: 0 }],
    [{ concurrency: 1.5 }],
    [{ concurrency: '3' }],
    [{ concurrency: Infinity }],
    [{ concurency: 3 }],
  ])('a wrong option is refused: %j', ([options]) => {
    expect(() => publishEach(() => undefined, options as never)).toThrow(InvalidOptionError)
  })

  test.for([[undefined], [null], [{}], ['https://example.com']])(
    'a value that is not a function is refused: %j',
    ([publish]) => {
      expect(() => publishEach(publish as never)).toThrow(InvalidOptionError)
    },
  )
})

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('O3 a function as a publisher keeps the order per key, refuses single messages, and gets several keys side by side', async () => {
    const keys = Array.from({ length: 8 }, (_, n) => `key-${n}`)
    const ids = await publishAll(
      root,
      keys.flatMap((key) => messagesOf(key, 6)),
    )
    const got = new Map<string, number[]>(keys.map((key) => [key, []]))
    const busy = new Set<string>()
    const overlaps: string[] = []
    const publisher = publishEach(
      async (message: OutboxMessage) => {
        const { key, n } = message.json<{ key: string; n: number }>()
        // An error that is thrown here would be a rejection.
        if (busy.has(key)) overlaps.push(key)
        busy.add(key)
        await Promise.resolve()
        busy.delete(key)
        if (key === 'key-3' && n === 2 && message.attempt === 1)
          throw new RetryLaterError({ retryAfterMs: 50 })
        if (key === 'key-4' && n === 3 && message.attempt <= 2) throw new Error('not yet')
        got.get(key)!.push(n)
      },
      { concurrency: 20 },
    )
    const retry = { attempts: 10, delayMs: () => 10 }
    const subject = await RelayUnderTest.started(root, publisher, { retry })
    await subject.hears('parked', 3)
    await expect.poll(() => [...got.values()].flat().length).toBe(ids.length)
    for (const key of keys) expect(got.get(key), key).toEqual([1, 2, 3, 4, 5, 6])
    expect(overlaps).toEqual([])
    await subject.relay.drain()
    expect(await outbox.backlog()).toEqual([])
  })

  test('O17 a batch may take longer than publishTimeoutMs; a message that never ends is cut off', async () => {
    const ids = await publishAll(root, [
      { topic: 'hangs', key: 'key-0', payload: 0 },
      ...Array.from({ length: 100 }, () => ({ topic: 'slow', payload: 0 })),
    ])
    const aborted: string[] = []
    const publisher = publishEach(
      ({ topic, id }, options) =>
        new Promise<void>((resolve, reject) => {
          if (topic === 'slow') setTimeout(resolve, 100)
          options.signal.addEventListener('abort', () => {
            aborted.push(id)
            reject(options.signal.reason as Error)
          })
        }),
      { concurrency: 2 },
    )
    const retry = { attempts: 1, delayMs: () => 10 }
    const subject = await RelayUnderTest.started(root, publisher, { retry, publishTimeoutMs: 300 })
    await subject.relay.drain()
    expect(aborted.filter((id) => id === ids[0])).toEqual([ids[0]])
    expect(subject.heard('dead-lettered').map(({ id }) => id)).toEqual([ids[0]])
    expect(subject.heard('error')).toMatchObject([{ error: { code: 'TXBOX_PUBLISH_TIMEOUT' } }])
  })
})

function messages(count: number): OutboxMessage[] {
  return Array.from({ length: count }, (_, n) => ({
    id: String(n),
    topic: 't',
    payload: new Uint8Array(0),
    text: () => '',
    json: <P>() => null as P,
    contentType: 'application/json',
    headers: {},
    createdAt: new Date(0),
    attempt: 1,
  }))
}
