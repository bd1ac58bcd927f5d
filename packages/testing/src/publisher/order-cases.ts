import assert from 'node:assert/strict'
import type { OutboxMessage } from '@txbox/core'
import { randomOf } from '../cases/random-of.ts'
import type { Draft } from './publisher-case.ts'
import {
  acceptedOf,
  answersOf,
  idsByKey,
  idsOf,
  outboxMessage,
  publish,
  sameIds,
  summary,
} from './sent-messages.ts'

/** After a cut, a message is accepted this long after the publisher's own time limit, at most. */
const SLACK_MS = 1000

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

/** The messages of a key arrive in their order. */
export const ORDER: readonly Draft[] = [
  {
    rule: 'O1',
    says: 'whatever is refused, a key continues in order up to its first rejection, and its other messages are skipped',
    check: async ({ publisher, goodTopic, badTopic, arrived }, { ordering, seed = 4711 }) => {
      const random = randomOf(seed)
      for (let round = 0; round < 30; round += 1) {
        const given = Array.from({ length: random(40) }, () => {
          const key = random(7)
          const topic = random(2) === 0 ? badTopic : goodTopic
          return outboxMessage({ topic, ...(key < 6 && { key: `key ${key}` }) })
        })
        const messages = atMostOfEachKey(ordering === 'per-key' ? Infinity : 1, given)
        const results = await publish(publisher, messages)
        assert.deepEqual(summary(results), expectedOf(messages, badTopic))
        const accepted = messages.filter((_, n) => results[n]?.status === 'accepted')
        const there = await arrived()
        sameIds(there, accepted)
        for (const ids of idsByKey(accepted)) {
          assert.deepEqual(
            idsOf(there).filter((id) => ids.includes(id)),
            ids,
          )
        }
      }
    },
  },
  {
    rule: 'O2',
    says: 'messages without a key are never skipped',
    check: async ({ publisher, goodTopic, badTopic, arrived }) => {
      const messages = Array.from({ length: 20 }, (_, n) =>
        outboxMessage({ topic: n % 2 === 0 ? badTopic : goodTopic }),
      )
      assert.deepEqual(summary(await publish(publisher, messages)), expectedOf(messages, badTopic))
      assert.equal((await arrived()).length, 10)
    },
  },
  {
    rule: 'O3',
    says: 'when connections are cut again and again, no accepted message is missing, and first copies keep their order',
    needs: ['network'],
    check: async ({ publisher, goodTopic, network, arrived }, { ordering, answerTimeoutMs = 30_000 }) => {
      const size = ordering === 'per-key' ? 500 : 20
      const messages = Array.from({ length: size * 6 }, (_, n) =>
        outboxMessage({ topic: goodTopic, key: `key ${n % 20}` }),
      )
      let acceptedAt = performance.now()
      for (let sent = 0; sent < messages.length; sent += size) {
        // The connection breaks once in each batch, a little later than in the previous batch.
        const cut = setTimeout(() => network!.cut(), (sent / size) * 4)
        let left = messages.slice(sent, sent + size)
        while (left.length > 0) {
          const answers = await answersOf(publisher, left)
          assert.ok(
            !summary([...answers.values()]).includes('rejected for good'),
            'a cut was taken for a refusal',
          )
          const accepted = new Set(acceptedOf(answers))
          left = left.filter((message) => !accepted.has(message))
          if (accepted.size > 0) acceptedAt = performance.now()
          const idleMs = performance.now() - acceptedAt
          assert.ok(idleMs < answerTimeoutMs + SLACK_MS, `no message was accepted for ${idleMs} ms`)
          // Timers must come to their turn, whatever the publisher does.
          await new Promise((resolve) => setImmediate(resolve))
        }
        clearTimeout(cut)
      }
      const there = [...new Set(idsOf(await arrived()))]
      assert.equal(there.length, messages.length)
      for (const ids of idsByKey(messages)) {
        const own = new Set(ids)
        assert.deepEqual(
          there.filter((id) => own.has(id)),
          ids,
        )
      }
    },
  },
  {
    rule: 'O4',
    says: 'a rejection in the middle of a large call stops its key only',
    // Without an order, the relay passes one message of a key at most.
    appliesTo: ({ ordering }) => ordering === 'per-key',
    check: async ({ publisher, goodTopic, badTopic, arrived }) => {
      const messages = Array.from({ length: 300 }, (_, n) =>
        outboxMessage({ topic: n === 150 ? badTopic : goodTopic, key: `key ${n % 3}` }),
      )
      const results = summary(await publish(publisher, messages))
      assert.deepEqual(results, expectedOf(messages, badTopic))
      sameIds(
        await arrived(),
        messages.filter((_, n) => results[n] === 'accepted'),
      )
    },
  },
]
