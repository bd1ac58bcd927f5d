import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { RelayUnderTest, publishAll } from '../../support/subjects/relay-under-test.ts'
import { failure, outboxMessage, publish, summary } from '../../support/subjects/publishing.ts'
import { idsOf } from '../nats-under-test.ts'
import { allNumbers, numbersByKey, steps } from '../../support/subjects/steps.ts'
import { stepsIn } from '../steps.ts'
import { useNatsProgram, type NatsProgram } from './nats-program.ts'

const KEYS = 10
const ROUNDS = 40
const STEPS_OF_A_ROUND = 5

const server = useNatsProgram()
const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))

const OUTAGES: readonly (readonly [string, (server: NatsProgram) => Promise<void>])[] = [
  [
    'killed',
    async (program) => {
      await program.kill()
      await program.start()
    },
  ],
  [
    'frozen for longer than the publisher waits',
    async (program) => {
      program.freeze()
      await pause(2000)
      program.thaw()
    },
  ],
]

test.for(OUTAGES)(
  'O3 O6 while the server is %s, no message is lost, dies, is doubled or loses its place in its key',
  async ([, outage]) => {
    const { nats } = server
    const stream = await nats.stream({ storage: 'file' })
    const publisher = nats.publisher({ confirmTimeoutMs: 500, connectTimeoutMs: 500 })
    // With one attempt, a rejection that counts would be the death of a message.
    const subject = await RelayUnderTest.started(root, publisher, {
      batchSize: 20,
      retry: { attempts: 1, delayMs: () => 1 },
    })
    const ids: string[] = []
    let isOver = false
    let ended: Promise<void> | undefined
    let wasOver = false
    for (let round = 0; round < ROUNDS || !wasOver; round += 1) {
      // The outage begins while messages are in flight, and some are published after it.
      wasOver = isOver
      if (round === ROUNDS / 4) ended = outage(server).then(() => void (isOver = true))
      const from = round * STEPS_OF_A_ROUND + 1
      ids.push(...(await publishAll(root, steps(`${stream}.steps`, KEYS, STEPS_OF_A_ROUND, from))))
      await pause(round < ROUNDS ? 10 : 200)
    }
    await ended
    await outbox.settled()
    expect(subject.heard('unavailable').length).toBeGreaterThan(0)
    expect(subject.heard('dead-lettered')).toEqual([])
    expect(subject.heard('parked')).toEqual([])
    const stored = await (await nats.log(stream))()
    // The outage is shorter than the time within which the stream drops resends.
    expect(idsOf(stored).toSorted()).toEqual(ids.toSorted())
    expect(numbersByKey(stepsIn(stored))).toEqual(allNumbers(KEYS, ids.length / KEYS))
  },
)

test('a frozen server makes a call with much data in flight throw in time, and an idle connection is dropped', async () => {
  const { nats } = server
  const stream = await nats.stream()
  const publisher = nats.publisher({ confirmTimeoutMs: 600, connectTimeoutMs: 500 })
  const large = (): ReturnType<typeof outboxMessage> =>
    outboxMessage({ topic: `${stream}.a`, payload: new Uint8Array(1_000_000) })
  expect(summary(await publish(publisher, [large()]))).toEqual(['accepted'])
  server.freeze()
  try {
    const began = performance.now()
    const error = await failure(publish(publisher, Array.from({ length: 40 }, large)))
    expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
    expect(performance.now() - began).toBeLessThan(1600)
  } finally {
    server.thaw()
  }
  expect(summary(await publish(publisher, [large()]))).toEqual(['accepted'])
  server.freeze()
  await pause(1500)
  server.thaw()
  expect(summary(await publish(publisher, [large()]))).toEqual(['accepted'])
})
