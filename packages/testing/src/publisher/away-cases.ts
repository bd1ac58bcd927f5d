import assert from 'node:assert/strict'
import { propertyOf } from '@txbox/core/internal'
import { failure } from '../cases/failure.ts'
import type { Draft } from './publisher-case.ts'
import {
  acceptedOf,
  answersOf,
  haveArrived,
  messagesOf,
  outboxMessage,
  publish,
  publishAll,
  sameIds,
} from './sent-messages.ts'

/** A frozen broker makes a call throw this long after the publisher's own time limit, at most. */
const SLACK_MS = 1000

async function failsRetryably(publishing: Promise<unknown>): Promise<void> {
  assert.equal(propertyOf(await failure(publishing), 'retryable'), true)
}

/** The rules by which an outage is distinguished from a refusal. */
export const AWAY: readonly Draft[] = [
  {
    rule: 'A1',
    says: 'an unavailable broker makes calls throw and rejects nothing; when the broker is back, calls work',
    needs: ['network'],
    check: async ({ publisher, goodTopic, network, arrived }) => {
      await network!.down()
      const messages = messagesOf(goodTopic, 10)
      for (let attempt = 0; attempt < 2; attempt += 1) await failsRetryably(publish(publisher, messages))
      await network!.up()
      await publishAll(publisher, messages)
      sameIds(await arrived(), messages)
    },
  },
  {
    rule: 'A2',
    says: 'a connection that is cut in the middle makes the call throw, or the results are true',
    needs: ['network'],
    check: async ({ publisher, goodTopic, network, arrived }) => {
      let accepted = 0
      // The late cuts are for a publisher that accepts nothing before.
      for (const delayMs of [0, 8, 16, 24, 32, 64, 128, 256, 512, 1024]) {
        if (accepted > 0 && delayMs > 32) break
        const cut = setTimeout(() => network!.cut(), delayMs)
        const taken = acceptedOf(await answersOf(publisher, messagesOf(goodTopic, 300)))
        clearTimeout(cut)
        haveArrived(taken, await arrived())
        accepted += taken.length
      }
      assert.ok(accepted > 0, 'no message was accepted, so that no result could be false')
    },
  },
  {
    rule: 'A3',
    says: 'a broker that accepts connections and answers nothing makes the call throw in time',
    needs: ['network', 'freeze'],
    check: async ({ publisher, goodTopic, network, arrived }, { answerTimeoutMs = 30_000 }) => {
      await publishAll(publisher, messagesOf(goodTopic, 1))
      await arrived()
      network!.freeze!()
      const began = performance.now()
      await failsRetryably(publish(publisher, messagesOf(goodTopic, 10)))
      const tookMs = performance.now() - began
      assert.ok(tookMs < answerTimeoutMs + SLACK_MS, `the call threw after ${tookMs} ms`)
    },
  },
  {
    rule: 'A5',
    says: 'a host without an address makes the call throw',
    needs: ['unresolved'],
    check: async ({ unresolved, goodTopic }) => {
      await failsRetryably(publish(unresolved!, [outboxMessage({ topic: goodTopic })]))
    },
  },
  {
    rule: 'A7',
    says: 'fifty outages leave no connection and no timer behind',
    needs: ['network'],
    check: async ({ publisher, goodTopic, network }) => {
      const open = (): number =>
        process.getActiveResourcesInfo().filter((name) => /TCP|Timeout/.test(name)).length
      await network!.down()
      await failure(publish(publisher, messagesOf(goodTopic, 2)))
      const before = open()
      for (let n = 0; n < 50; n += 1) await failure(publish(publisher, messagesOf(goodTopic, 2)))
      assert.ok(open() <= before + 5, `${open()} resources are open, after ${before} before the outages`)
      await network!.up()
    },
  },
]
