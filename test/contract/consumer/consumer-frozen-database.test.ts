import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Consumer, type InboxMessage } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import type { TransactionHandle } from '@txbox/core'
import {
  kindsOfRoots,
  mainKind,
  useRoot,
  useTarget,
  type HandleKind,
  type Root,
} from '../../support/engines/target.ts'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { QueueConsumers } from '../../support/subjects/queue-consumers.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))
const MESSAGES = 8

async function behindNetwork(kind: HandleKind): Promise<{ network: UnreliableNetwork; through: Root }> {
  const network = await UnreliableNetwork.to(target.address())
  const through = target.open(kind, { through: network, max: MESSAGES + 2 })
  await through.ready?.()
  onTestFinished(async () => {
    network.thaw()
    await network.close()
    await through.close()
  })
  return { network, through }
}

/** Handlers that wait for the frozen database. */
class Handlers {
  begun = 0
  readonly #frozen = Promise.withResolvers<void>()

  readonly go = (): void => this.#frozen.resolve()

  readonly handle = async (tx: TransactionHandle): Promise<void> => {
    this.begun += 1
    await this.#frozen.promise
    await target.effect(tx, 'never')
  }
}

/** Stops a consumer whose handlers all wait for a frozen database. */
async function stopFrozen(
  consumer: Consumer,
  events: ConsumerUnderTest['events'],
  network: UnreliableNetwork,
  handlers: Handlers,
): Promise<void> {
  await until(
    async () => handlers.begun === MESSAGES,
    () => `${handlers.begun} handlers run`,
  )
  // No receive is in flight, so that nothing but the handlers waits for the database.
  consumer.pause()
  await new Promise((resolve) => setTimeout(resolve, 100))
  network.freeze()
  handlers.go()
  const begunAt = performance.now()
  await consumer.stop({ timeoutMs: 1000 })
  expect(performance.now() - begunAt).toBeLessThan(1500)
  const inHand = consumer.figures.inHand
  const lost = events.filter(({ event }) => event === 'lost').length
  const errors = events.flatMap(({ event, value }) =>
    event === 'error' ? [String(Reflect.get(value, 'error'))] : [],
  )
  // Each delivery that is left is reported as lost, or by an error that names the number of deliveries.
  const named = errors.some((text) => text.includes(`not taken back: ${inHand} (`)) ? inHand : 0
  expect({ inHand, lost, reported: lost + named >= inHand }, errors.join('\n')).toMatchObject({
    reported: true,
  })
}

for (const kind of kindsOfRoots(target)) {
  test(`C23 stop on a frozen database reports the deliveries of a stored queue that it could not settle (${kind.name})`, async () => {
    const { network, through } = await behindNetwork(kind)
    const consumers = new QueueConsumers(target, root)
    await consumers.subject.sendTogether(Array.from({ length: MESSAGES }, () => ({})))
    const handlers = new Handlers()
    const consumer = await consumers.start(handlers.handle, { concurrency: MESSAGES }, through)
    await stopFrozen(consumer, consumers.events, network, handlers)
  })

  test(`C23 stop on a frozen database reports the deliveries of a broker whose handlers wait for the database (${kind.name})`, async () => {
    const { network, through } = await behindNetwork(kind)
    const source = new MemorySource()
    for (let n = 0; n < MESSAGES; n += 1) source.send(`frozen-${n}`)
    const handlers = new Handlers()
    const events: ConsumerUnderTest['events'] = []
    const consumer = createConsumer({
      source,
      inbox: createInbox<TransactionHandle, InboxMessage>({
        database: through.database,
        consumer: 'frozen',
      }),
      concurrency: MESSAGES,
      logger: false,
      handler: handlers.handle,
    })
    listen(consumer, events)
    await consumer.start()
    await stopFrozen(consumer, events, network, handlers)
  })
}
