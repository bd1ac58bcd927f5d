import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { RelayUnderTest, publishAll } from '../../support/subjects/relay-under-test.ts'
import { idsOf } from '../kafka-under-test.ts'
import { allNumbers, numbersByKey, steps } from '../../support/subjects/steps.ts'
import { stepsIn } from '../steps.ts'
import type { KafkaProgram } from './kafka-program.ts'

const KEYS = 10
const ROUNDS = 40
const STEPS_OF_A_ROUND = 5

const OUTAGES: readonly (readonly [string, (broker: KafkaProgram) => Promise<void>])[] = [
  [
    'killed',
    async (broker) => {
      await broker.kill()
      await broker.restart()
    },
  ],
  ['restarted', (broker) => broker.restart()],
  [
    'frozen for longer than the publisher waits',
    async (broker) => {
      await broker.freeze()
      await pause(3000)
      await broker.thaw()
    },
  ],
]

/** A broker that goes away while a relay publishes. */
export function testOutages(broker: KafkaProgram): void {
  const target = useTarget()
  const outbox = useOutboxTarget(target)
  const root = useRoot(target, mainKind(target))

  test.for(OUTAGES)(
    'O3 O6 while the broker is %s, no message is lost, dies or loses its place in its key',
    async ([, outage]) => {
      const { kafka } = broker
      const topic = await kafka.topic()
      const publisher = kafka.publisher({ confirmTimeoutMs: 1000, connectTimeoutMs: 1000 })
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
        if (round === ROUNDS / 4) ended = outage(broker).then(() => void (isOver = true))
        ids.push(
          ...(await publishAll(root, steps(topic, KEYS, STEPS_OF_A_ROUND, round * STEPS_OF_A_ROUND + 1))),
        )
        await pause(round < ROUNDS ? 10 : 200)
      }
      await ended
      await outbox.settled()
      expect(subject.heard('unavailable').length).toBeGreaterThan(0)
      expect(subject.heard('dead-lettered')).toEqual([])
      const records = await (await kafka.log(topic)).take()
      expect(new Set(idsOf(records))).toEqual(new Set(ids))
      expect(numbersByKey(stepsIn(records))).toEqual(allNumbers(KEYS, ids.length / KEYS))
    },
  )
}
