import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { within } from '@txbox/core/internal'
import { failure } from '../cases/failure.ts'
import type { Draft } from './publisher-case.ts'
import {
  acceptedOf,
  answersOf,
  haveArrived,
  largeBytes,
  messagesOf,
  outboxMessage,
  publish,
  publishAll,
  sameIds,
} from './sent-messages.ts'

/** A call that is aborted, or whose publisher is closed, ends within this time. */
const STOP_MS = 1000
/** The payloads of a large call, and the memory that a hundred of them may leave behind. */
const CALL_BYTES = 4_000_000
const LEFT_BYTES = 64_000_000
/** Timers of the test runner are over at some time of such a period. */
const SETTLED_MS = 500
/** Memory outside of the heap is given back some time after its owners were collected. */
const COLLECTION_MS = 5000
/** Calls of a publisher that takes small messages only are smaller. */
const MOST_MESSAGES = 100

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
    needs: ['publisher.close'],
    check: async ({ publisher, goodTopic, arrived }) => {
      await publishAll(publisher, messagesOf(goodTopic, 3))
      await arrived()
      const working = answersOf(publisher, messagesOf(goodTopic, 500))
      await new Promise((resolve) => setImmediate(resolve))
      await Promise.all([publisher.close!(), publisher.close!()])
      await publisher.close!()
      const answers = await within(working, STOP_MS, () => assert.fail('the call did not end in time'))
      haveArrived(acceptedOf(answers), await arrived())
      await failure(publish(publisher, messagesOf(goodTopic, 1)))
    },
  },
  {
    rule: 'S4',
    says: 'after close, nothing of the publisher keeps the process from ending',
    needs: ['publisher.close'],
    check: async ({ publisher, goodTopic, network, arrived }) => {
      // The subject itself may open resources with its first call, which do not belong to the publisher.
      await arrived()
      const before = await keptAlive(SETTLED_MS)
      if (network !== undefined) {
        await network.down()
        await failure(publish(publisher, messagesOf(goodTopic, 3)))
        await network.up()
      }
      await publishAll(publisher, messagesOf(goodTopic, 3))
      await arrived()
      await publisher.close!()
      const after = await keptAlive(STOP_MS, before)
      const more = [...after].filter(([what, count]) => count > (before.get(what) ?? 0))
      const texts = more.map(([what, count]) => `${count} of ${what} (${before.get(what) ?? 0} before)`)
      assert.deepEqual(texts, [], 'these keep the process alive')
    },
  },
  {
    rule: 'S5',
    says: 'a hundred calls of 4 MB leave less than 64 MB of memory',
    check: async ({ publisher, goodTopic, tooLarge, arrived }) => {
      const size = largeBytes(tooLarge)
      const count = Math.min(MOST_MESSAGES, Math.ceil(CALL_BYTES / size))
      const call = async (): Promise<void> => {
        const messages = Array.from({ length: count }, () =>
          outboxMessage({
            topic: goodTopic,
            payload: new Uint8Array(size).fill(7),
            contentType: 'application/octet-stream',
          }),
        )
        await publishAll(publisher, messages)
        sameIds(await arrived(), messages)
      }
      // The first calls allocate the memory that is kept for all calls.
      for (let n = 0; n < 5; n += 1) await call()
      const before = usedBytes()
      for (let n = 0; n < 100; n += 1) await call()
      const deadline = performance.now() + COLLECTION_MS
      for (let left = Infinity; left >= LEFT_BYTES; left = usedBytes() - before) {
        assert.ok(performance.now() < deadline, `${left} bytes are left`)
        await pause(20)
      }
    },
  },
]

/**
 * The resources that keep the process alive: how many of each kind there are at least at any time of a period, as timers of the test runner
 * come and go, and connections of helpers in the same process end a little later. The period ends early when there are no more than `most`.
 */
async function keptAlive(
  periodMs: number,
  most?: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  const least = new Map<string, number>()
  const deadline = performance.now() + periodMs
  for (let isFirst = true; isFirst || performance.now() < deadline; isFirst = false) {
    await pause(20)
    const resources = process.getActiveResourcesInfo()
    for (const what of isFirst ? resources : least.keys()) {
      const count = resources.filter((each) => each === what).length
      least.set(what, Math.min(least.get(what) ?? Infinity, count))
    }
    if (most !== undefined && [...least].every(([what, count]) => count <= (most.get(what) ?? 0))) break
  }
  return least
}

/** The memory of everything that can be reached. */
function usedBytes(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
