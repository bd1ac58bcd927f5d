import assert from 'node:assert/strict'
import type { OutboxMessage } from '@txbox/core'
import { failure } from '../cases/failure.ts'
import type { Draft } from './publisher-case.ts'
import { failuresOfCheck, isReadable } from './readable-errors.ts'
import { outboxMessage, publish, publishAll, reasonIn, sameIds, summary } from './sent-messages.ts'

/** Which messages are rejected, and for how long. */
export const VERDICTS: readonly Draft[] = [
  {
    rule: 'V1',
    says: 'a missing destination rejects the message for now',
    check: async ({ publisher, badTopic, arrived }) => {
      assert.deepEqual(summary(await publish(publisher, [outboxMessage({ topic: badTopic })])), [
        'rejected for now',
      ])
      assert.deepEqual(await arrived(), [])
    },
  },
  {
    rule: 'V2',
    says: 'the largest message is accepted; one with a byte more is rejected for good, with its size and the limit',
    needs: ['tooLarge'],
    check: async ({ publisher, goodTopic, tooLarge, arrived }) => {
      const messageOf = (bytes: number): OutboxMessage =>
        outboxMessage({ topic: goodTopic, payload: new Uint8Array(bytes).fill(7) })
      const larger = messageOf(tooLarge!)
      const largest = messageOf(tooLarge! - 1)
      const results = await publish(publisher, [larger, largest])
      assert.deepEqual(summary(results), ['rejected for good', 'accepted'])
      assert.ok(reasonIn(results[0]).includes(String(tooLarge!)), 'the size is not named')
      assert.ok(reasonIn(results[0]).includes(String(tooLarge! - 1)), 'the limit is not named')
      sameIds(await arrived(), [largest])
    },
  },
  {
    rule: 'V3',
    says: 'a message that the protocol cannot carry is rejected for good, alone, and by name',
    needs: ['poison'],
    check: async ({ publisher, goodTopic, poison, arrived }) => {
      for (const [name, change] of Object.entries(poison ?? {})) {
        const good = [outboxMessage({ topic: goodTopic }), outboxMessage({ topic: goodTopic })] as const
        const bad = outboxMessage({ topic: goodTopic, ...change })
        const results = await publish(publisher, [good[0], bad, good[1]])
        assert.deepEqual(summary(results), ['accepted', 'rejected for good', 'accepted'], name)
        sameIds(await arrived(), good)
      }
    },
  },
  {
    rule: 'V4',
    says: 'a full destination rejects without counting, others go on, and later the message is accepted',
    needs: ['full'],
    check: async ({ publisher, goodTopic, full, arrived }) => {
      const waiting = outboxMessage({ topic: full!.topic })
      const other = outboxMessage({ topic: goodTopic })
      const results = await publish(publisher, [waiting, other])
      assert.deepEqual(summary(results), ['rejected for now', 'accepted'])
      assert.equal(results[0]?.status === 'rejected' && results[0].counted, false)
      await full!.free()
      await publishAll(publisher, [waiting])
      await arrived()
    },
  },
  {
    rule: 'V5',
    says: 'rejections and outages have a readable reason, which never shows the password',
    check: async ({ publisher, goodTopic, badTopic, network, secret }) => {
      const [result] = await publish(publisher, [outboxMessage({ topic: badTopic })])
      assert.equal(result?.status, 'rejected')
      const errors: unknown[] = [result.error]
      if (network !== undefined) {
        await network.down()
        errors.push(await failure(publish(publisher, [outboxMessage({ topic: goodTopic })])))
        errors.push(...(await failuresOfCheck(publisher)))
        await network.up()
      }
      for (const error of errors) isReadable(error, secret)
    },
  },
]
