import assert from 'node:assert/strict'
import type { OutboxMessage } from '@txbox/core'
import { randomOf } from '../cases/random-of.ts'
import type { Draft } from './publisher-case.ts'
import type { PublisherContractOptions, PublisherUnderTest, ReadMessage } from './publisher-under-test.ts'
import { outboxMessage, publish, publishAll, reasonIn, sameIds, summary } from './sent-messages.ts'

const needs = ['readBack'] as const

async function oneBack({ readBack }: PublisherUnderTest): Promise<ReadMessage> {
  const [message, ...more] = (await readBack?.()) ?? []
  assert.ok(message !== undefined && more.length === 0, 'exactly one message must arrive')
  return message
}

function named(
  headers: Readonly<Record<string, string>>,
  { lowerCaseHeaders }: PublisherContractOptions,
): Map<string, string> {
  const entries = Object.entries(headers).map(([name, value]): [string, string] => [
    lowerCaseHeaders === true ? name.toLowerCase() : name,
    value,
  ])
  return new Map(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** Texts with characters that protocols treat in their own ways. */
const TEXTS = [
  'a',
  'Z',
  '9',
  ' ',
  '-',
  '_',
  '.',
  ':',
  '%',
  '"',
  '\n',
  '\t',
  '\0',
  'é',
  'ß',
  '日',
  '👋',
  '\u2028',
  '\uD800',
]

function randomText(random: (below: number) => number, most: number): string {
  return Array.from({ length: 1 + random(most) }, () => TEXTS[random(TEXTS.length)]).join('')
}

/** The fields of a message arrive as they were sent, or the message is rejected. */
export const FIELDS: readonly Draft[] = [
  {
    rule: 'F1',
    says: 'all fields and headers are read back as they were sent',
    needs,
    check: async (subject, options) => {
      const message = outboxMessage({
        topic: subject.goodTopic,
        type: 'order.paid',
        key: 'order-7',
        correlationId: 'c-1',
        contentType: 'application/json; charset=utf-8',
        headers: { tenant: 'north', empty: '', 'X-Mixed-Case': 'Yes, indeed' },
      })
      await publishAll(subject.publisher, [message])
      const back = await oneBack(subject)
      for (const field of ['id', 'type', 'key', 'correlationId', 'contentType'] as const) {
        assert.equal(back[field], message[field], field)
      }
      assert.equal(back.createdAt?.toISOString(), message.createdAt.toISOString())
      assert.deepEqual(named(back.headers, options), named(message.headers, options))
    },
  },
  {
    rule: 'F2',
    says: 'a field that is absent stays absent',
    needs,
    check: async (subject) => {
      await publishAll(subject.publisher, [outboxMessage({ topic: subject.goodTopic })])
      const { type, key, correlationId, headers } = await oneBack(subject)
      assert.deepEqual([type, key, correlationId, headers], [undefined, undefined, undefined, {}])
    },
  },
  {
    rule: 'F3',
    says: 'whatever ids and headers have, they arrive unchanged, or the message is rejected for good; others are not disturbed',
    needs,
    check: async (subject, options) => {
      const random = randomOf(options.seed ?? 4711)
      for (let round = 0; round < 40; round += 1) {
        const odd = Array.from({ length: 3 }, () =>
          outboxMessage({
            topic: subject.goodTopic,
            ...(random(2) === 0 && { id: `${round}${randomText(random, 8)}` }),
            headers: { [`h${randomText(random, 6)}`]: randomText(random, 10) },
          }),
        )
        const plain = outboxMessage({ topic: subject.goodTopic })
        const results = await publish(subject.publisher, [...odd, plain])
        const back = (await subject.readBack?.()) ?? []
        const accepted: OutboxMessage[] = [...odd, plain].filter((_, n) => results[n]?.status === 'accepted')
        for (const [n, text] of summary(results).entries()) {
          assert.ok(
            text === 'accepted' || (text === 'rejected for good' && n < 3),
            `${text}: ${reasonIn(results[n])}`,
          )
        }
        sameIds(back, accepted)
        for (const message of accepted) {
          const same = back
            .filter(({ id }) => id === message.id)
            .map(({ headers }) => named(headers, options))
          assert.ok(
            same.some((headers) => equal(headers, named(message.headers, options))),
            'changed headers',
          )
        }
      }
    },
  },
  {
    rule: 'F4',
    says: 'two headers whose names differ only by case arrive both, or the message is rejected for good',
    needs,
    check: async (subject, { lowerCaseHeaders }) => {
      const message = outboxMessage({ topic: subject.goodTopic, headers: { tenant: 'a', Tenant: 'b' } })
      const results = await publish(subject.publisher, [message])
      if (lowerCaseHeaders === true) return assert.deepEqual(summary(results), ['rejected for good'])
      assert.deepEqual(summary(results), ['accepted'])
      assert.deepEqual((await oneBack(subject)).headers, { tenant: 'a', Tenant: 'b' })
    },
  },
  {
    rule: 'F5',
    says: 'the headers traceparent and tracestate arrive untouched',
    needs,
    check: async (subject) => {
      const headers = {
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        tracestate: 'vendor=value',
      }
      await publishAll(subject.publisher, [outboxMessage({ topic: subject.goodTopic, headers })])
      assert.deepEqual((await oneBack(subject)).headers, headers)
    },
  },
  {
    rule: 'F6',
    says: 'a message that is published and then read for a consumer is the same message',
    needs: ['received'],
    check: async ({ publisher, goodTopic, received }, options) => {
      const full = {
        topic: goodTopic,
        type: 'order.paid',
        key: 'order-7',
        correlationId: 'c-1',
        headers: { tenant: 'north', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
      }
      const sent = [
        ...[{ n: [1, 2.5, null, true], s: 'Zoë 日本' }, 'text', null].map((value) => ({
          message: outboxMessage({ ...full, payload: Buffer.from(JSON.stringify(value)) }),
          value,
        })),
        ...['Zoë 日本', ''].map((value) => ({
          message: outboxMessage({
            ...full,
            contentType: 'text/plain; charset=utf-8',
            payload: Buffer.from(value),
          }),
          value,
        })),
        ...[Uint8Array.of(0, 255, 0xef, 0xbb, 0xbf), new Uint8Array(0)].map((value) => ({
          message: outboxMessage({ ...full, contentType: 'application/octet-stream', payload: value }),
          value,
        })),
        { message: outboxMessage({ topic: goodTopic }), value: { n: 1 } },
      ]
      await publishAll(
        publisher,
        sent.map(({ message }) => message),
      )
      const back = await received!()
      sameIds(
        back,
        sent.map(({ message }) => message),
      )
      for (const { message, value } of sent) {
        const { payload, time, headers, ...fields } = back.find(({ id }) => id === message.id)!
        assert.deepEqual(comparable(payload), comparable(value), `the payload of ${message.contentType}`)
        assert.equal(new Date(time ?? NaN).getTime(), message.createdAt.getTime(), 'the time')
        assert.deepEqual(named(headers ?? {}, options), named(message.headers, options))
        for (const field of ['type', 'correlationId'] as const) {
          assert.equal(fields[field], message[field], field)
        }
      }
    },
  },
]

/** Bytes are the same in every kind of array. */
function comparable(payload: unknown): unknown {
  return payload instanceof Uint8Array ? { base64: Buffer.from(payload).toString('base64') } : payload
}

function equal(some: ReadonlyMap<string, string>, others: ReadonlyMap<string, string>): boolean {
  return JSON.stringify([...some]) === JSON.stringify([...others])
}
