import assert from 'node:assert/strict'
import { within } from '@txbox/core/internal'
import { failure } from '../cases/failure.ts'
import type { Draft } from './publisher-case.ts'
import { acceptedOf, answersOf, haveArrived, messagesOf, publish, publishAll } from './sent-messages.ts'

/** A call that is aborted, or whose publisher is closed, ends within this time. */
const STOP_MS = 1000

/** Calls end when they have to. */
export const STOP: readonly Draft[] = [
  {
    rule: 'S1',
    says: 'a call that is aborted before it begins throws the reason, and nothing arrives',
    check: async ({ publisher, goodTopic, arrived }) => {
      const reason = new Error('stop now')
      assert.equal(
        await failure(publish(publisher, messagesOf(goodTopic, 20), AbortSignal.abort(reason))),
        reason,
      )
      assert.deepEqual(await arrived(), [])
    },
  },
  {
    rule: 'S2',
    says: 'a call that is aborted while it works ends, and its accepted messages have arrived; the next call works',
    check: async ({ publisher, goodTopic, arrived }) => {
      await publishAll(publisher, messagesOf(goodTopic, 1))
      await arrived()
      const abort = new AbortController()
      const working = answersOf(publisher, messagesOf(goodTopic, 500), abort.signal)
      await new Promise((resolve) => setImmediate(resolve))
      const began = performance.now()
      abort.abort(new Error('stop now'))
      const answers = await working
      assert.ok(performance.now() - began < STOP_MS, 'the call did not end in time')
      const next = messagesOf(goodTopic, 5, 'next')
      await publishAll(publisher, next)
      haveArrived([...acceptedOf(answers), ...next], await arrived())
    },
  },
  {
    rule: 'S3',
    says: 'closing twice is closing once; closing ends a call in progress, whose accepted messages have arrived; after it, calls throw',
    appliesTo: ({ closes = true }) => closes,
    check: async ({ publisher, goodTopic, arrived }) => {
      assert.ok(publisher.close !== undefined, "the publisher has no 'close': say `closes: false`")
      await publishAll(publisher, messagesOf(goodTopic, 3))
      await arrived()
      const working = answersOf(publisher, messagesOf(goodTopic, 500))
      await new Promise((resolve) => setImmediate(resolve))
      await Promise.all([publisher.close(), publisher.close()])
      await publisher.close()
      const answers = await within(working, STOP_MS, () => assert.fail('the call did not end in time'))
      haveArrived(acceptedOf(answers), await arrived())
      await failure(publish(publisher, messagesOf(goodTopic, 1)))
    },
  },
]
