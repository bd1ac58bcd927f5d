import assert from 'node:assert/strict'
import type { Draft } from './publisher-case.ts'
import {
  bytesById,
  largeBytes,
  messagesOf,
  outboxMessage,
  publish,
  publishAll,
  reasonIn,
  sameIds,
  summary,
} from './sent-messages.ts'

const PAYLOADS: readonly Uint8Array[] = [
  new Uint8Array(0),
  Uint8Array.of(0),
  Uint8Array.from({ length: 256 }, (_, n) => n),
  new TextEncoder().encode('Zoë 日本 👋 \u0000 \uFEFF'),
  Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d),
  Buffer.from('--{"n":1}--').subarray(2, 9),
]

/** Each message has one result, and the result is true. */
export const RESULTS: readonly Draft[] = [
  {
    rule: 'P1',
    says: 'the publisher declares the order that it keeps',
    check: ({ publisher }, { ordering }) =>
      Promise.resolve(assert.equal(publisher.ordering ?? 'none', ordering)),
  },
  {
    rule: 'P2',
    says: 'a call without messages has no results',
    check: async ({ publisher }) => assert.deepEqual(await publish(publisher, []), []),
  },
  {
    rule: 'P3',
    says: 'accepted messages have arrived, each once, with their ids and bytes',
    check: async ({ publisher, goodTopic, tooLarge, arrived }) => {
      const large = new Uint8Array(largeBytes(tooLarge)).fill(7)
      const messages = [...PAYLOADS, large].map((payload) =>
        outboxMessage({ topic: goodTopic, payload, contentType: 'application/octet-stream' }),
      )
      await publishAll(publisher, messages)
      assert.deepEqual(bytesById(await arrived()), bytesById(messages))
    },
  },
  {
    rule: 'P4',
    says: 'a resend has the same id and bytes, or the broker drops it',
    check: async ({ publisher, goodTopic, arrived }, { deduplicates = false }) => {
      const messages = messagesOf(goodTopic, 3)
      for (const attempt of [1, 2]) {
        await publishAll(
          publisher,
          messages.map((message) => ({ ...message, attempt })),
        )
        assert.deepEqual(bytesById(await arrived()), bytesById(deduplicates && attempt > 1 ? [] : messages))
      }
      // Two messages of one id in one call are legal.
      await publishAll(publisher, [
        outboxMessage({ topic: goodTopic, id: 'the-same' }),
        outboxMessage({ topic: goodTopic, id: 'the-same' }),
      ])
      assert.equal((await arrived()).length, deduplicates ? 1 : 2)
    },
  },
  {
    rule: 'P5',
    says: 'each message has one result, in order; a refused message is rejected by its id, and does not arrive',
    check: async ({ publisher, goodTopic, badTopic, arrived }) => {
      const messages = Array.from({ length: 1000 }, (_, n) =>
        outboxMessage({ topic: n % 7 === 0 ? badTopic : goodTopic, key: `key ${n}` }),
      )
      const results = await publish(publisher, messages)
      assert.deepEqual(
        summary(results),
        messages.map(({ topic }) => (topic === goodTopic ? 'accepted' : 'rejected for now')),
      )
      for (const [n, { id }] of messages.entries()) {
        if (results[n]?.status === 'rejected')
          assert.ok(reasonIn(results[n]).includes(id), `${id} is not named`)
      }
      sameIds(
        await arrived(),
        messages.filter(({ topic }) => topic === goodTopic),
      )
    },
  },
  {
    rule: 'P6',
    says: 'overlapping calls have separate results',
    check: async ({ publisher, goodTopic, badTopic, arrived }) => {
      const calls = Array.from({ length: 8 }, (_, n) =>
        messagesOf(n % 2 === 0 ? goodTopic : badTopic, 50, `call ${n}`),
      )
      const results = await Promise.all(calls.map((messages) => publish(publisher, messages)))
      for (const [n, result] of results.entries()) {
        assert.deepEqual(
          summary(result),
          calls[n]!.map(() => (n % 2 === 0 ? 'accepted' : 'rejected for now')),
        )
      }
      sameIds(
        await arrived(),
        calls.flat().filter(({ topic }) => topic === goodTopic),
      )
    },
  },
  {
    rule: 'P7',
    says: "the caller's messages are not changed",
    check: async ({ publisher, goodTopic, arrived }) => {
      const headers = Object.freeze({ tenant: 'north' })
      const payload = Buffer.from('{"n":1}')
      const message = Object.freeze(outboxMessage({ topic: goodTopic, key: 'k', headers, payload }))
      await publishAll(publisher, Object.freeze([message]) as (typeof message)[])
      assert.equal(payload.toString(), '{"n":1}')
      sameIds(await arrived(), [message])
    },
  },
]
