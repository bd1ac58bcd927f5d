import { randomUUID } from 'node:crypto'
import { RetryLaterError, createConsumer, type InboxMessage } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { expect, onTestFinished, test } from 'vitest'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { ChangingHandler, ORDER, conflict } from '../support/subjects/changing-handler.ts'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const target = useTarget()
const broker = useBroker()
const root = useRoot(target, mainKind(target))

/** The failures of the first attempts: a conflict, a local retry, and a failure that counts as a delivery. */
const FAILURES = [conflict(), new RetryLaterError({ retryAfterMs: 1 }), new Error('failed')]

test.each(['with an inbox', 'without one'])(
  'C11 C12 a handler of RabbitMQ sees the message as received in each attempt, bytes too: %s',
  async (way) => {
    const queue = await broker.queue({ type: 'quorum' })
    const channel = await broker.confirmChannel()
    const properties = { headers: { region: 'eu' }, persistent: true }
    channel.sendToQueue(queue, Buffer.from(JSON.stringify(ORDER)), { ...properties, messageId: 'json' })
    const contentType = 'application/octet-stream'
    channel.sendToQueue(queue, Buffer.from('abc'), { ...properties, contentType, messageId: 'bytes' })
    await channel.waitForConfirms()

    const handler = new ChangingHandler()
    const bytes: string[] = []
    const handle = (message: InboxMessage): void => {
      let attempt: number
      if (message.payload instanceof Uint8Array) {
        attempt = bytes.push(Buffer.from(message.payload).toString())
        message.payload.fill(0)
      } else {
        attempt = handler.change(message)
      }
      const failure = FAILURES[attempt - 1]
      if (failure !== undefined) throw failure
    }
    const common = {
      source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true, countsDeliveries: true }),
      logger: false,
      retry: { attempts: 10, delayMs: () => 1 },
    } as const
    const name = `as-received-${randomUUID()}`
    const inbox = createInbox({ database: root.database, consumer: name })
    const consumer =
      way === 'with an inbox'
        ? createConsumer({ ...common, inbox, handler: (_tx, message: InboxMessage) => handle(message) })
        : createConsumer({ ...common, name, handler: (message: InboxMessage) => handle(message) })
    const events: ConsumerUnderTest['events'] = []
    listen(consumer, events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    await until(
      async () => events.filter(({ event }) => event === 'handled').length === 2,
      () => `2 handled: ${JSON.stringify(events)}`,
    )
    expect(handler.attempts).toEqual(Array(4).fill('json 900 2 region=eu'))
    expect(bytes).toEqual(Array(4).fill('abc'))
  },
)
