import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { OutboxMessage } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import { failure } from '../cases/failure.ts'
import type { Draft } from './publisher-case.ts'
import { failuresOfCheck, isReadable } from './readable-errors.ts'
import {
  acceptedOf,
  answersOf,
  haveArrived,
  idsOf,
  messagesOf,
  outboxMessage,
  publish,
  publishAll,
  sameIds,
} from './sent-messages.ts'

/** A frozen broker makes a call throw this long after the publisher's own time limit, at most. */
const SLACK_MS = 1000
/** A broker that has stored nothing for so long has stored what it received before. */
const QUIET_MS = 250
/** A client that sends by itself what it has kept or repeats has done so after this time. */
const LATE_MS = 5000

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
    needs: ['network', 'network.freeze'],
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
    rule: 'A4',
    says: 'a refused password makes the call throw, and check reject, with a readable reason that does not show the password',
    needs: ['refused'],
    check: async ({ refused, goodTopic }) => {
      const { publisher, secret } = refused!
      const errors = [
        await failure(publish(publisher, [outboxMessage({ topic: goodTopic })])),
        ...(await failuresOfCheck(publisher)),
      ]
      for (const error of errors) {
        assert.equal(propertyOf(error, 'retryable'), true)
        isReadable(error, secret)
      }
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
    rule: 'A6',
    says: 'when a call has thrown, nothing more is sent: five seconds later, only messages that were in flight have arrived',
    needs: ['network'],
    check: async ({ publisher, goodTopic, network, arrived }) => {
      const ended = new Set<string>()
      const take = async (): Promise<number> => {
        const there = idsOf(await arrived())
        const late = there.filter((id) => ended.has(id))
        assert.deepEqual(late, [], 'these messages were sent after their call had ended')
        return there.length
      }
      const outage = async (
        work: (messages: readonly OutboxMessage[]) => Promise<unknown>,
      ): Promise<void> => {
        const messages = messagesOf(goodTopic, 300)
        await work(messages)
        await network!.down()
        // A broker may still be busy with what it received in time.
        do await pause(QUIET_MS)
        while ((await take()) > 0)
        for (const { id } of messages) ended.add(id)
        await network!.up()
        // A client that keeps messages over an outage may send them with its next one.
        await publishAll(publisher, messagesOf(goodTopic, 1))
      }
      await network!.down()
      await outage((messages) => failure(publish(publisher, messages)))
      for (const delayMs of [0, 8, 32]) {
        await outage(async (messages) => {
          const down = pause(delayMs).then(() => network!.down())
          await answersOf(publisher, messages)
          await down
        })
      }
      if (network!.freeze !== undefined) {
        network!.freeze()
        await outage((messages) => failure(publish(publisher, messages)))
      }
      await pause(LATE_MS)
      await take()
    },
  },
  {
    rule: 'A7',
    says: 'fifty outages leave no connection, no timer and no listener behind',
    needs: ['network'],
    check: async ({ publisher, goodTopic, network }) => {
      const { signal } = new AbortController()
      const fail = (): Promise<unknown> => failure(publish(publisher, messagesOf(goodTopic, 2), signal))
      const warned: Error[] = []
      const warn = (warning: Error): void => void warned.push(warning)
      process.on('warning', warn)
      const counts = (): Readonly<Record<string, number>> => ({
        resources: process.getActiveResourcesInfo().filter((name) => /TCP|Timeout/.test(name)).length,
        'listeners of the signal': getEventListeners(signal, 'abort').length,
        'listeners of the process': process
          .eventNames()
          .reduce((sum, name) => sum + process.listenerCount(name), 0),
      })
      await network!.down()
      await fail()
      const before = counts()
      for (let n = 0; n < 50; n += 1) await fail()
      const after = counts()
      process.off('warning', warn)
      for (const [what, count] of Object.entries(after)) {
        assert.ok(
          count <= before[what]! + 5,
          `there are ${count} ${what}, after ${before[what]} before the outages`,
        )
      }
      assert.deepEqual(
        warned.filter(({ name }) => name === 'MaxListenersExceededWarning'),
        [],
      )
      await network!.up()
    },
  },
]
