import assert from 'node:assert/strict'
import type { OutboxMessage } from '@txbox/core'
import type { Draft } from './contract-case.ts'
import { idsByKey, idsOf, outboxMessage, publish, randomOf, sameIds, summary } from './sent-messages.ts'

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
    check: async ({ publisher, goodTopic, network, arrived }, { ordering }) => {
      const size = ordering === 'per-key' ? 500 : 20
      const messages = Array.from({ length: size * 6 }, (_, n) =>
        outboxMessage({ topic: goodTopic, key: `key ${n % 20}` }),
      )
      let cuts = 0
      for (let sent = 0; sent < messages.length;) {
        const batch = messages.slice(sent, sent + size)
        // The connection breaks once in each batch, a little later than in the previous batch.
        const cut = cuts * size === sent ? setTimeout(() => network!.cut(), cuts * 4) : undefined
        if (cut !== undefined) cuts += 1
        const results = await publish(publisher, batch).catch(() => undefined)
        clearTimeout(cut)
        if (results === undefined) continue
        assert.deepEqual([...new Set(summary(results))], ['accepted'])
        sent += batch.length
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
    check: async ({ publisher, goodTopic, badTopic, arrived }, { ordering }) => {
      if (ordering === 'none') return
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
