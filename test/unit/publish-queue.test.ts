import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { OutboxMessage, Publisher } from '@txbox/core'
import type { HeldShard } from '@txbox/core/internal'
import type { BacklogMessage } from '@txbox/core/ports'
import { Gate } from '../support/worlds/broker.ts'
import { InFlightBatch, type CallTools } from '../../packages/relay/src/turns/in-flight-batch.ts'
import { MessagesInFlight } from '../../packages/relay/src/turns/messages-in-flight.ts'
import { PublishQueue } from '../../packages/relay/src/turns/key-order.ts'

function message(seq: number, key: string | undefined, ordered = key !== undefined): BacklogMessage {
  return { seq: BigInt(seq), stamp: seq, key, ordered, payload: new Uint8Array(1) } as BacklogMessage
}

function take(queue: PublishQueue): number[] {
  return queue.take().map(({ seq }) => Number(seq))
}

test('O11 scheduled messages share no call with another message of their key, and wait for no result', () => {
  const batch = [
    message(1, 'a', false),
    message(2, 'a'),
    message(3, 'a', false),
    message(4, 'b', false),
    message(5, undefined),
    message(6, 'a'),
  ]
  const queue = new PublishQueue(batch, 'none')
  expect(take(queue)).toEqual([2, 4, 5])
  queue.accepted(batch[1]!)
  expect(take(queue)).toEqual([6])
  expect(take(queue)).toEqual([1])
  expect(take(queue)).toEqual([3])
  expect(queue.hasDue).toBe(false)

  const whole = new PublishQueue(batch, 'per-key')
  expect(take(whole)).toEqual([2, 4, 5, 6])
  expect(take(whole)).toEqual([1])
  expect(take(whole)).toEqual([3])
  expect(whole.hasDue).toBe(false)
})

test('O3 O11 of a key in flight, later ordered messages wait until all earlier ones are settled, and scheduled messages do not', () => {
  const inFlight = new MessagesInFlight()
  const [scheduled, first, second] = [message(1, 'a', false), message(2, 'a'), message(3, 'a')]
  inFlight.add('parked', scheduled)
  expect(inFlight.mayPublish('parked', scheduled)).toBe(false)
  expect(inFlight.mayPublish('outbox', first)).toBe(true)
  inFlight.add('outbox', first)
  inFlight.add('outbox', second)
  expect(inFlight.mayPublish('outbox', message(4, 'a'))).toBe(false)
  expect(inFlight.mayPublish('parked', message(4, 'a', false))).toBe(true)
  inFlight.remove('parked', scheduled)
  inFlight.remove('outbox', first)
  expect(inFlight.mayPublish('outbox', message(4, 'a'))).toBe(false)
  inFlight.remove('outbox', second)
  expect(inFlight.mayPublish('outbox', message(4, 'a'))).toBe(true)
})

test('O11 scheduled messages of one key that all hang do not keep an ordered key of their batch from continuing', async () => {
  const scheduled = Array.from({ length: 6 }, (_, n) => message(n, 'a', false))
  const ordered = Array.from({ length: 6 }, (_, n) => message(10 + n, 'b'))
  const calls: OutboxMessage[][] = []
  const accepted = Promise.withResolvers<void>()
  const gate = new Gate()
  let acceptances = 0
  const publisher: Publisher = {
    async publish(messages, { answered }) {
      calls.push([...messages])
      // Long enough for calls of scheduled messages to begin in between.
      await pause(250)
      const index = messages.findIndex(({ key }) => key === 'b')
      if (index !== -1) {
        answered?.(index, { status: 'accepted' })
        acceptances += 1
        if (acceptances === ordered.length) accepted.resolve()
      }
      if (messages.some(({ key }) => key === 'a')) await gate.pass()
      return messages.map(() => ({ status: 'accepted' }))
    },
  }
  const signal = new AbortController().signal
  const tools = { publisher, publishTimeoutMs: 60_000, signal, telemetry: () => undefined } as CallTools
  const held = { isTrusted: true } as HeldShard
  const batch = new InFlightBatch('parked', [...scheduled, ...ordered], held, tools)
  await accepted.promise
  expect(batch.hasEnded).toBe(false)
  // Several of the scheduled messages are in flight, each in a call without another message of its key.
  expect(calls.flat().filter(({ key }) => key === 'a').length).toBeGreaterThan(1)
  for (const call of calls) expect(call.filter(({ key }) => key === 'a').length).toBeLessThanOrEqual(1)
  gate.open()
  await batch.ended
  expect(calls.flat().length).toBe(scheduled.length + ordered.length)
})
