import assert from 'node:assert/strict'
import type { PublishResult } from '@txbox/core'
import type { Draft } from './contract-case.ts'
import { failure, idsOf, messagesOf, publish, publishAll } from './sent-messages.ts'

/** A call that is aborted ends within this time. */
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
      const messages = messagesOf(goodTopic, 500)
      const answers = new Map<number, PublishResult>()
      const ended = publisher
        .publish(messages, { signal: abort.signal, answered: (n, result) => void answers.set(n, result) })
        .then((results) => {
          for (const [n, result] of results.entries()) answers.set(n, result)
        })
        .catch(() => undefined)
      await new Promise((resolve) => setImmediate(resolve))
      const began = performance.now()
      abort.abort(new Error('stop now'))
      await ended
      assert.ok(performance.now() - began < STOP_MS, 'the call did not end in time')
      const next = messagesOf(goodTopic, 5, 'next')
      await publishAll(publisher, next)
      const there = new Set(idsOf(await arrived()))
      const accepted = [...messages.filter((_, n) => answers.get(n)?.status === 'accepted'), ...next]
      assert.deepEqual(
        idsOf(accepted).filter((id) => !there.has(id)),
        [],
      )
    },
  },
  {
    rule: 'S3',
    says: 'closing twice is closing once; closing ends a call in progress, and after it, calls throw',
    check: async ({ publisher, goodTopic }) => {
      await publishAll(publisher, messagesOf(goodTopic, 3))
      if (publisher.close === undefined) return
      const working = publish(publisher, messagesOf(goodTopic, 500)).catch(() => [])
      await Promise.all([publisher.close(), publisher.close()])
      await publisher.close()
      await working
      await failure(publish(publisher, messagesOf(goodTopic, 1)))
    },
  },
]
