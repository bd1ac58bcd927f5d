import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const target = useTarget()
const broker = useBroker()
const root = useRoot(target, mainKind(target))

function send(queue: string, id: string, payload: unknown, headers: Record<string, string> = {}): void {
  const content = Buffer.from(JSON.stringify(payload))
  const options = { messageId: id, contentType: 'application/json', headers, persistent: true }
  broker.channel.sendToQueue(queue, content, options)
}

for (const type of ['quorum', 'classic'] as const) {
  test(`C1 C2 each message of a ${type} queue has one effect, although some are delivered twice`, async () => {
    const queue = await broker.queue({ type })
    const consumer = `consumer-${randomUUID()}`
    const inbox = createInbox({ database: root.database, consumer })
    const outcomes: string[] = []
    const subject = createConsumer({
      source: rabbitmqSource<{ n: number }>({ url: broker.url, queue, keepsRejected: true }),
      inbox,
      handler: async (tx, { payload }) => {
        await target.effect(tx, `${consumer} ${payload.n}`)
      },
    })
    onTestFinished(() => subject.stop())
    subject.on('handled', ({ outcome }) => outcomes.push(outcome))
    await subject.start()
    for (let n = 0; n < 50; n += 1) send(queue, `message ${n}`, { n })
    for (let n = 0; n < 10; n += 1) send(queue, `message ${n}`, { n })
    await until(
      async () => outcomes.length === 60,
      () => `60 handled: ${outcomes.length}`,
    )
    expect(outcomes.filter((outcome) => outcome === 'duplicate').length).toBe(10)
    for (let n = 0; n < 50; n += 1) expect(await target.effects(`${consumer} ${n}`)).toBe(1)
    await subject.stop()
    expect(await broker.ids(queue)).toEqual([])
    expect(subject.figures).toEqual({ inHand: 0, running: 0, waiting: 0, retrying: 0 })
  })
}

test('C1 the delivery is accepted only after the transaction has committed', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  const consumer = `consumer-${randomUUID()}`
  const reached = Promise.withResolvers<void>()
  const subject = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true }),
    inbox: createInbox({ database: root.database, consumer }),
    handler: async (tx) => {
      await target.effect(tx, consumer)
      reached.resolve()
      await new Promise(() => undefined)
    },
  })
  await subject.start()
  send(queue, 'hangs', {})
  await reached.promise
  await subject.stop({ timeoutMs: 200 })
  expect(await target.effects(consumer)).toBe(0)
  await until(
    async () => (await broker.channel.checkQueue(queue)).messageCount === 1,
    () => 'it is back',
  )
})
