import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import type { Telemetry } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { warningsOf } from '../support/worlds/warnings.ts'
import { WRONG_TELEMETRIES } from '../support/worlds/wrong-telemetries.ts'
import { useBroker } from '../rabbitmq/broker-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const broker = useBroker()
const root = useRoot(target, mainKind(target), { max: 20 })

for (const [does, create] of Object.entries(WRONG_TELEMETRIES)) {
  test(`a telemetry that ${does} loses, doubles and delays no message, and is reported once`, async () => {
    const warnings = warningsOf('TXBOX_TELEMETRY')
    const { hooks, isReported = true } = create()
    const telemetry = hooks as Telemetry
    const queue = await broker.queue({ type: 'quorum' })
    const consumer = `consumer-${randomUUID()}`
    const publishing = createOutbox({ database: root.database, telemetry })
    for (let n = 0; n < 10; n++) {
      const transaction = await root.begin()
      await publishing.publish(transaction.tx, { topic: queue, id: `${consumer} ${n}`, key: 'a', payload: n })
      await transaction.commit()
    }
    const { relay } = await RelayUnderTest.started(root, broker.publisher({ exchange: '' }), { telemetry })
    const numbers: number[] = []
    const outcomes: string[] = []
    let hasFailed = false
    const subject = createConsumer({
      source: rabbitmqSource<number>({ url: broker.url, queue, keepsRejected: true }),
      inbox: createInbox({ database: root.database, consumer, telemetry }),
      concurrency: 1,
      prefetch: 1,
      handler: async (tx, { payload }) => {
        if (payload === 5 && !hasFailed) {
          hasFailed = true
          throw new Error('of the handler')
        }
        numbers.push(payload)
        await target.effect(tx, `${consumer} ${payload}`)
      },
      retry: { attempts: 5, delayMs: () => 1 },
      telemetry,
      logger: false,
    })
    subject.on('handled', ({ outcome }) => void outcomes.push(outcome))
    onTestFinished(() => subject.stop())
    await subject.start()
    await until(
      async () => outcomes.length === 10,
      () => `10 handled: ${outcomes.join()}`,
    )
    await outbox.settled()
    await Promise.all([relay.stop(), subject.stop()])
    expect(hasFailed).toBe(true)
    expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 10 }, (_, n) => n))
    for (let n = 0; n < 10; n++) expect(await target.effects(`${consumer} ${n}`)).toBe(1)
    expect(warnings).toHaveLength(isReported ? 1 : 0)
  })
}
