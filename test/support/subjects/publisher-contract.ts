import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { OutboxMessage, PublishResult, Publisher } from '@txbox/relay'
import { failure, outboxMessage, publish, reason, summary } from './publishing.ts'

/** A message as it arrived. */
export interface Arrived {
  readonly id: string
  readonly payload: Uint8Array
}

/** A publisher and the receiving side of its destination. Each test gets a new one. */
export interface PublisherUnderTest {
  readonly publisher: Publisher
  /** A topic whose messages arrive. */
  readonly goodTopic: string
  /** A topic whose messages are refused for another attempt. */
  readonly badTopic: string
  /** The messages that have arrived since the last call, in the order of arrival. */
  readonly arrived: () => Promise<readonly Arrived[]>
  /** The proxy between the publisher and the broker; only if there is a broker that can be unavailable. */
  readonly network?: { cut(): void; down(): Promise<void>; up(): Promise<void> }
}

const SEED = 4711

/** The rules for every publisher, so that a relay loses nothing and keeps the order of each key. */
export function publisherContract(
  { ordering, canBeAway }: { readonly ordering: 'none' | 'per-key'; readonly canBeAway: boolean },
  open: () => Promise<PublisherUnderTest>,
): void {
  describe('results', () => {
    test('it declares the order that it keeps', async () => {
      const { publisher } = await open()
      expect(publisher.ordering ?? 'none').toBe(ordering)
    })

    test('a call without messages has no results', async () => {
      const { publisher } = await open()
      expect(await publish(publisher, [])).toEqual([])
    })

    test('O1 O2 O13 accepted messages have arrived, each once, with their ids and bytes; a resend is identical', async () => {
      const { publisher, goodTopic, arrived } = await open()
      const messages = payloads.map((payload) =>
        outboxMessage({ topic: goodTopic, payload, contentType: 'application/octet-stream' }),
      )
      expect(new Set(summary(await publish(publisher, messages)))).toEqual(new Set(['accepted']))
      expect(byId(await arrived())).toEqual(byId(messages))
      const again = messages.map((message) => ({ ...message, attempt: 2 }))
      expect(new Set(summary(await publish(publisher, again)))).toEqual(new Set(['accepted']))
      expect(byId(await arrived())).toEqual(byId(messages))
    })

    test('O11 each message has one result, in order; a refused message is rejected by name, and does not arrive', async () => {
      const { publisher, goodTopic, badTopic, arrived } = await open()
      const messages = Array.from({ length: 1000 }, (_, n) =>
        outboxMessage({ topic: n % 7 === 0 ? badTopic : goodTopic, key: `key ${n}` }),
      )
      const results = await publish(publisher, messages)
      expect(summary(results)).toEqual(
        messages.map(({ topic }) => (topic === goodTopic ? 'accepted' : 'rejected for now')),
      )
      for (const [n, { id }] of messages.entries()) {
        if (results[n]?.status === 'rejected') expect(reason(results[n])).toContain(id)
      }
      const good = messages.filter(({ topic }) => topic === goodTopic).map(({ id }) => id)
      expect(idsOf(await arrived()).toSorted()).toEqual(good.toSorted())
    })

    test('overlapping calls have separate results', async () => {
      const { publisher, goodTopic, badTopic, arrived } = await open()
      const calls = Array.from({ length: 8 }, (_, n) =>
        callOf(n % 2 === 0 ? goodTopic : badTopic, 50, `${n}`),
      )
      const results = await Promise.all(calls.map((messages) => publish(publisher, messages)))
      for (const [n, result] of results.entries()) {
        expect(summary(result)).toEqual(calls[n]!.map(() => (n % 2 === 0 ? 'accepted' : 'rejected for now')))
      }
      const good = calls.flat().filter(({ topic }) => topic === goodTopic)
      expect(idsOf(await arrived()).toSorted()).toEqual(idsOf(good).toSorted())
    })
  })

  describe('the order of a key', () => {
    const most = ordering === 'per-key' ? Infinity : 1

    test('O3 O4 whatever is refused, a key continues in order up to its first rejection, and its other messages are skipped', async () => {
      const { publisher, goodTopic, badTopic, arrived } = await open()
      const call = fc.array(
        fc.record({ key: fc.option(fc.nat({ max: 5 }), { nil: undefined }), good: fc.boolean() }),
        { maxLength: 40 },
      )
      await fc.assert(
        fc.asyncProperty(call, async (given) => {
          const messages = atMostOfEachKey(
            most,
            given.map(({ key, good }) =>
              outboxMessage({
                topic: good ? goodTopic : badTopic,
                ...(key !== undefined && { key: `key ${key}` }),
              }),
            ),
          )
          const results = await publish(publisher, messages)
          expect(summary(results)).toEqual(expectedOf(messages, badTopic))
          const accepted = messages.filter((_, n) => results[n]?.status === 'accepted')
          const there = idsOf(await arrived())
          expect(there.toSorted()).toEqual(idsOf(accepted).toSorted())
          for (const ids of idsByKey(accepted)) expect(there.filter((id) => ids.includes(id))).toEqual(ids)
        }),
        { seed: SEED, numRuns: 30 },
      )
    })
  })

  describe('stopping', () => {
    test('a call that is aborted before it begins throws, and nothing arrives', async () => {
      const { publisher, goodTopic, arrived } = await open()
      const aborted = AbortSignal.abort(new Error('stop now'))
      expect((await failure(publish(publisher, callOf(goodTopic, 20), aborted))).message).toBe('stop now')
      expect(await arrived()).toEqual([])
    })

    test('O10 a call that is aborted while it works ends, and its accepted messages have arrived; the next call works', async () => {
      const { publisher, goodTopic, arrived } = await open()
      await publish(publisher, callOf(goodTopic, 1))
      await arrived()
      const abort = new AbortController()
      const messages = callOf(goodTopic, 500)
      const ended = publish(publisher, messages, abort.signal).catch((): readonly PublishResult[] => [])
      setImmediate(() => abort.abort(new Error('stop now')))
      const results = await ended
      const next = callOf(goodTopic, 5)
      expect(summary(await publish(publisher, next))).toEqual(next.map(() => 'accepted'))
      const there = new Set(idsOf(await arrived()))
      const accepted = [...messages.filter((_, n) => results[n]?.status === 'accepted'), ...next]
      expect(idsOf(accepted).filter((id) => !there.has(id))).toEqual([])
    })

    test('a second close does nothing', async () => {
      const { publisher, goodTopic } = await open()
      await publish(publisher, callOf(goodTopic, 3))
      await Promise.all([publisher.close?.(), publisher.close?.()])
      await publisher.close?.()
    })
  })

  if (canBeAway) brokerAway(open)
}

/** For a publisher with a broker behind it: an outage is distinguished from a refusal. */
function brokerAway(open: () => Promise<PublisherUnderTest>): void {
  describe('a broker that is away', () => {
    test('O6 an unavailable broker makes calls throw and rejects nothing; when the broker is back, calls work', async () => {
      const { publisher, goodTopic, network, arrived } = await open()
      await network!.down()
      const messages = callOf(goodTopic, 10)
      for (let attempt = 0; attempt < 2; attempt += 1) {
        expect(await failure(publish(publisher, messages))).toMatchObject({ retryable: true })
      }
      await network!.up()
      expect(summary(await publish(publisher, messages))).toEqual(messages.map(() => 'accepted'))
      expect(idsOf(await arrived()).toSorted()).toEqual(idsOf(messages).toSorted())
    })

    test('O1 O3 O6 when connections are cut again and again, no accepted message is missing, and first copies keep their order', async () => {
      const { publisher, goodTopic, network, arrived } = await open()
      const messages = Array.from({ length: 3000 }, (_, n) =>
        outboxMessage({ topic: goodTopic, key: `key ${n % 20}` }),
      )
      let failures = 0
      for (let sent = 0; sent < messages.length;) {
        const batch = messages.slice(sent, sent + 500)
        // The connection breaks once in each batch, a little later than in the previous batch.
        const cut = failures * 500 === sent ? setTimeout(() => network!.cut(), failures * 4) : undefined
        const results = await publish(publisher, batch).catch(() => undefined)
        clearTimeout(cut)
        if (results === undefined || cut !== undefined) failures += 1
        if (results === undefined) continue
        expect(new Set(summary(results))).toEqual(new Set(['accepted']))
        sent += batch.length
      }
      const there = [...new Set(idsOf(await arrived()))]
      expect(there.length).toBe(messages.length)
      for (const ids of idsByKey(messages)) {
        const own = new Set(ids)
        expect(there.filter((id) => own.has(id))).toEqual(ids)
      }
    })
  })
}

const payloads: readonly Uint8Array[] = [
  new Uint8Array(0),
  Uint8Array.of(0),
  Uint8Array.from({ length: 256 }, (_, n) => n),
  new TextEncoder().encode('Zoë 日本 👋 \u0000 \uFEFF'),
  Buffer.from('--{"n":1}--').subarray(2, 9),
  new Uint8Array(1_000_000).fill(7),
]

function callOf(topic: string, count: number, prefix = ''): OutboxMessage[] {
  return Array.from({ length: count }, (_, n) => outboxMessage({ topic, key: `${prefix} ${n}` }))
}

function idsOf(messages: readonly { readonly id: string }[]): string[] {
  return messages.map(({ id }) => id)
}

/** The bytes of each message, and how often it arrived. */
function byId(messages: readonly Arrived[]): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const { id, payload } of messages) {
    found.set(id, [...(found.get(id) ?? []), Buffer.from(payload).toString('base64')])
  }
  return new Map([...found].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function idsByKey(messages: readonly OutboxMessage[]): readonly string[][] {
  const keys = new Map<string, string[]>()
  for (const { id, key } of messages) if (key !== undefined) keys.set(key, [...(keys.get(key) ?? []), id])
  return [...keys.values()]
}

function atMostOfEachKey(most: number, messages: readonly OutboxMessage[]): OutboxMessage[] {
  const seen = new Map<string, number>()
  return messages.filter(({ key }) => {
    if (key === undefined) return true
    seen.set(key, (seen.get(key) ?? 0) + 1)
    return seen.get(key)! <= most
  })
}

function expectedOf(messages: readonly OutboxMessage[], badTopic: string): string[] {
  const blocked = new Set<string>()
  return messages.map(({ key, topic }) => {
    if (key !== undefined && blocked.has(key)) return 'skipped'
    if (topic !== badTopic) return 'accepted'
    if (key !== undefined) blocked.add(key)
    return 'rejected for now'
  })
}
