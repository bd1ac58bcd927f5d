import { describe, expect, test } from 'vitest'
import { publishEach, type PublishResult, type Publisher } from '@txbox/relay'
import { Broker, rejected, type Respond } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

/** Invalid answers of publishers. The broker has received no message, whatever the answers contain. */
const nonsense: Record<string, (results: PublishResult[]) => unknown> = {
  nothing: () => undefined,
  null: () => null,
  'a number': (results) => results.length,
  'no results': () => [],
  'a result too few': (results) => results.slice(1),
  'a result too many': (results) => [...results, { status: 'accepted' }],
  'results that are undefined': (results) => results.map(() => undefined),
  'results that are null': (results) => results.map(() => null),
  'an array with holes': (results) => Object.assign([], { length: results.length }),
  'results that are text': (results) => results.map(() => 'accepted'),
  'an unknown status': (results) => results.map(() => ({ status: 'ok' })),
  'a status in capitals': (results) => results.map(() => ({ status: 'ACCEPTED' })),
  'no status': (results) => results.map(() => ({})),
  'an object instead of an array': (results) => Object.assign({}, results),
  'accepted, and of one that it has no idea': (results) => [...results.slice(1), { status: 'perhaps' }],
  'a rejection with nothing in it': (results) => results.map(() => ({ status: 'rejected' })),
  'a rejection after a time that is none': (results) =>
    results.map(() => rejected({ retryAfterMs: Number.NaN })),
  'a rejection after a time that has passed': (results) =>
    results.map(() => rejected({ retryAfterMs: -1000 })),
  'skipped, and nothing was rejected': (results) => results.map(() => ({ status: 'skipped' })),
}

// This concerns the publisher, so the library of the database makes no difference.
const kind = mainKind(target)
const root = useRoot(target, kind)

describe('a publisher that throws', () => {
  test('O15 while one destination is away, messages of another one are published in all shards', async () => {
    const keys = Array.from({ length: 100 }, (_, n) => `key-${n}`)
    await publishAll(
      root,
      keys.map((key) => ({ topic: 'away', key: `away-${key}`, payload: 0 })),
    )
    const reached = new Set<string>()
    const publisher = publishEach(({ topic, key }) => {
      if (topic === 'away') throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
      reached.add(key!)
    })
    const subject = await RelayUnderTest.started(root, publisher)
    // The pauses have grown to about a second.
    await subject.hears('unavailable', 7)
    const up = [3, 4, 13, 14].flatMap((shard) => keysOfOneShard(1, shard))
    await publishAll(
      root,
      up.map((key) => ({ topic: 'up', key, payload: 0 })),
    )
    await expect.poll(() => reached.size, { timeout: 3000 }).toBe(up.length)
    expect(subject.heard('dead-lettered')).toEqual([])
    for (const { attempt } of subject.heard('parked')) expect(attempt).toBeLessThanOrEqual(1)
  })

  test('O6 the publisher is called once before each pause, even if a shard has parked and new messages', async () => {
    const [one, two] = keysOfOneShard(2) as [string, string]
    const scheduled = { topic: 'test', key: one, payload: 1, deliverAt: new Date(0) }
    await publishAll(root, [scheduled, ...messagesOf(two, 1)])
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: (call) => {
        if (call.number <= 3) throw new Error('down')
        return call.acceptAll()
      },
    })
    await RelayUnderTest.started(root, publisher)
    await broker.received(2)
    for (const n of [1, 2, 3]) {
      expect(broker.calls[n]!.startedAt - broker.calls[n - 1]!.startedAt).toBeGreaterThanOrEqual(49)
    }
  })

  test('O6 while a publisher throws, the relay backs off and counts no attempt; afterwards it continues', async () => {
    const ids = await publishAll(root, [
      ...messagesOf('a', 3),
      ...messagesOf('b', 3),
      ...messagesOf(undefined, 32),
    ])
    const broker = new Broker()
    const errors: Error[] = []
    let down = true
    const publisher = broker.publisher({
      respond: (call) => {
        if (!down) return call.acceptAll()
        errors.push(new Error(`down ${errors.length}`))
        throw errors.at(-1)
      },
    })
    const subject = await RelayUnderTest.started(root, publisher)
    await subject.hears('unavailable', 4)
    down = false
    const outages = subject.heard('unavailable')
    await broker.received(ids.length)
    await subject.relay.drain()

    const pauses = outages.map(({ retryInMs }) => retryInMs)
    for (const [n, pause] of pauses.slice(1).entries()) expect(pause).toBeGreaterThanOrEqual(pauses[n]!)
    expect(pauses[0]).toBeGreaterThan(0)
    // With the largest jitter of the first pause, and the smallest ones of the others, 1.6 times.
    expect(pauses[3]!).toBeGreaterThanOrEqual(1.5 * pauses[0]!)
    for (const { error } of outages) expect(errors).toContain(error)
    // As a whole: every shard pauses. Calls that were in flight when the first one failed are no more than a few.
    expect(broker.calls.length - errors.length).toBeLessThan(40)
    expect(errors.length).toBeLessThanOrEqual(4 * 16)
    expect(broker.log.map(({ message }) => message.attempt)).toEqual(ids.map(() => 1))
    expect(broker.ids().sort()).toEqual([...ids].sort())
    expect(broker.ids('a')).toEqual(ids.slice(0, 3))
    expect(subject.heard('parked')).toEqual([])
    expect(await outbox.backlog()).toEqual([])
  })

  test('O6 between two tries the relay does not call the publisher for the pause that it has reported', async () => {
    await publishAll(root, messagesOf('a', 1))
    const broker = new Broker()
    const respond: Respond = (call) => {
      if (call.number <= 4) throw new Error('down')
      return call.acceptAll()
    }
    const subject = await RelayUnderTest.started(root, broker.publisher({ respond }))
    await broker.received(1)
    const starts = broker.calls.map(({ startedAt }) => startedAt)
    for (const [n, { retryInMs }] of subject.heard('unavailable').entries()) {
      expect(starts[n + 1]! - starts[n]!).toBeGreaterThanOrEqual(retryInMs - 1)
    }
    expect(starts.length).toBe(5)
  })

  test('O6 after a success the next outage begins with a short pause again', async () => {
    const broker = new Broker()
    let down = true
    const publisher = broker.publisher({
      respond: (call) => {
        if (down) throw new Error('down')
        return call.acceptAll()
      },
    })
    await publishAll(root, messagesOf('a', 1))
    const subject = await RelayUnderTest.started(root, publisher)
    await subject.hears('unavailable', 4)
    down = false
    await broker.received(1)
    down = true
    await publishAll(root, messagesOf('a', 1, 2))
    const before = subject.heard('unavailable')
    await subject.hears('unavailable', before.length + 1)
    const after = subject.heard('unavailable')[before.length]!
    expect(after.retryInMs).toBeLessThan(before[3]!.retryInMs)
    down = false
    await broker.received(2)
  })

  for (const [name, fail] of Object.entries<() => never>({
    'an Error': () => {
      throw new Error('down')
    },
    undefined: () => {
      throw undefined
    },
    text: () => {
      throw 'down' as unknown as Error
    },
    'an AbortError': () => {
      throw new DOMException('aborted', 'AbortError')
    },
  })) {
    test(`O6 a publisher that throws ${name}, at once or later, loses nothing`, async () => {
      const ids = await publishAll(root, messagesOf('a', 2))
      const broker = new Broker()
      const behaved = broker.publisher()
      let calls = 0
      const publisher: Publisher = {
        // Not async: it throws instead of returning a promise that rejects.
        publish: (messages, options) => {
          calls += 1
          if (calls === 1) return fail()
          return calls === 2 ? Promise.resolve().then(fail) : behaved.publish(messages, options)
        },
      }
      const subject = await RelayUnderTest.started(root, publisher)
      await broker.received(2)
      await subject.relay.drain()
      expect(broker.ids()).toEqual(ids)
      expect(subject.heard('unavailable').length).toBe(2)
      expect(await outbox.backlog()).toEqual([])
    })
  }
})

for (const [name, answer] of Object.entries(nonsense)) {
  test(`O1 a publisher that answers ${name} loses nothing`, async () => {
    const [one, two] = keysOfOneShard(2) as [string, string]
    const ids = await publishAll(root, [...messagesOf(one, 3), ...messagesOf(two, 3)])
    const broker = new Broker()
    const publisher = broker.publisher({
      ordering: 'per-key',
      respond: (call) => {
        if (call.number > 1) return call.acceptAll()
        return answer(call.messages.map(() => ({ status: 'accepted' }))) as PublishResult[]
      },
    })
    const subject = await RelayUnderTest.started(root, publisher, {
      retry: { attempts: 1000, delayMs: () => 5 },
    })
    await outbox.settled()
    // The invalid answer is reported.
    const emitted = subject.heard(name.startsWith('a rejection') ? 'parked' : 'unavailable')
    expect(emitted.length).toBeGreaterThan(0)
    expect(broker.ids(one)).toEqual(ids.slice(0, 3))
    expect(broker.ids(two)).toEqual(ids.slice(3))
  })
}

test('O1 an invalid answer of a publisher is reported', async () => {
  await publishAll(root, messagesOf('a', 1))
  const publisher: Publisher = { publish: async () => [] }
  const subject = await RelayUnderTest.started(root, publisher)
  await subject.hears('unavailable')
  expect(String(subject.heard('unavailable')[0]!.error)).toMatch(/result/i)
})
