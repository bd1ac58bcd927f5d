import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Consumer } from '@txbox/consumer'
import type { InboxMessage, TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createQueue, queueSource } from '@txbox/queue'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

/** Ends the connection of a transaction, as an administrator does. */
async function kill(tx: TransactionHandle): Promise<void> {
  const isPostgres = target.engine === 'postgres'
  const own = isPostgres ? 'select pg_backend_pid() as id' : 'select connection_id() as id'
  const [row] = await target.exec(tx, own)
  const id = Number(row!['id'])
  await target.sql(isPostgres ? `select pg_terminate_backend(${id})` : `kill ${id}`)
}

async function throughNetwork(): Promise<{ network: UnreliableNetwork; through: Root }> {
  const network = await UnreliableNetwork.to(target.address())
  const through = target.open(mainKind(target), { through: network })
  await through.ready?.()
  onTestFinished(async () => {
    await network.up()
    await through.close()
    await network.close()
  })
  return { network, through }
}

type Mode = 'with an inbox' | 'in batches' | 'over a stored queue'
const MODES: readonly Mode[] = ['with an inbox', 'in batches', 'over a stored queue']

/** A consumer whose handler writes its effect after `meddle`. */
class LossesUnderTest {
  readonly name = `consumer-${randomUUID()}`
  readonly events: ConsumerUnderTest['events'] = []
  readonly runs: { readonly id: string; readonly deliveries: number }[] = []
  readonly #through: Root

  constructor(through = root) {
    this.#through = through
  }

  async start(
    mode: Mode,
    ids: readonly string[],
    attempts: number,
    meddle: (tx: TransactionHandle, id: string, run: number) => unknown,
    { writes = true } = {},
  ): Promise<void> {
    const { database } = this.#through
    const handle = async (tx: TransactionHandle, { id }: InboxMessage, deliveries: number): Promise<void> => {
      this.runs.push({ id, deliveries })
      await meddle(tx, id, this.of(id).length)
      if (writes) await target.effect(tx, `${this.name} ${id}`)
    }
    const common = { logger: false as const, retry: { attempts, delayMs: () => 1 } }
    let consumer: Consumer
    if (mode === 'over a stored queue') {
      const queue = createQueue<TransactionHandle>({ database, name: this.name })
      await database.transact(async (tx) => {
        await queue.send(
          tx as never,
          ids.map((id) => ({ id, payload: id })),
        )
      })
      const source = queueSource(queue)
      consumer = createConsumer({
        ...common,
        source,
        database,
        name: this.name,
        handler: (tx, message, { deliveries }) => handle(tx, message, deliveries),
      })
    } else {
      const source = new MemorySource()
      for (const id of ids) source.send(id)
      const inbox = createInbox<TransactionHandle>({ database, consumer: this.name })
      consumer =
        mode === 'in batches'
          ? createConsumer({
              ...common,
              source,
              inbox,
              batch: { maxSize: 10, lingerMs: 20 },
              handler: async (tx, messages, contexts) => {
                for (const [n, message] of messages.entries()) {
                  await handle(tx, message, contexts[n]!.deliveries)
                }
              },
            })
          : createConsumer({
              ...common,
              source,
              inbox,
              handler: (tx, message, { deliveries }) => handle(tx, message, deliveries),
            })
    }
    listen(consumer, this.events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
  }

  of(id: string): readonly { readonly deliveries: number }[] {
    return this.runs.filter((run) => run.id === id)
  }

  heard(event: string): readonly object[] {
    return this.events.filter((one) => one.event === event).map(({ value }) => value)
  }

  async ended(count: number): Promise<void> {
    await until(
      async () => this.heard('handled').length + this.heard('dead-lettered').length >= count,
      () => `${count} have ended: ${JSON.stringify(this.events)}`,
    )
  }
}

for (const mode of MODES) {
  test(`C11 a handler that ends its own connection is tried three times uncounted, and then counted: ${mode}`, async () => {
    const subject = new LossesUnderTest()
    await subject.start(mode, ['killer', 'good'], 2, async (tx, id) => {
      if (id === 'killer') await kill(tx)
    })
    await subject.ended(2)
    expect(subject.heard('dead-lettered')).toMatchObject([{ message: { id: 'killer' } }])
    expect(await target.effects(`${subject.name} good`)).toBe(1)
    // A batch fails as a whole first, and then each message alone is tried.
    const runs = subject.of('killer').map(({ deliveries }) => deliveries)
    expect(mode === 'in batches' ? runs.slice(-5) : runs).toEqual([1, 1, 1, 1, 2])
    expect(subject.heard('retried')).toMatchObject([{ message: { id: 'killer' }, local: false }])
    expect(subject.heard('unavailable').length).toBe(3)
  })

  test(`C11 C24 breaks of the connection inside a handler's statement cost no attempt: ${mode}`, async () => {
    const { network, through } = await throughNetwork()
    const subject = new LossesUnderTest(through)
    await subject.start(mode, ['a'], 1, (_, __, run) => {
      if (run <= 3) network.cut()
    })
    await subject.ended(1)
    expect(subject.heard('handled')).toMatchObject([{ message: { id: 'a' }, deliveries: 1 }])
    expect(subject.runs.length).toBe(4)
    expect(await target.effects(`${subject.name} a`)).toBe(1)
  })
}

test("C24 while no connection reaches the server, a connection that is lost in a handler's statement costs no attempt, however often", async () => {
  const { network, through } = await throughNetwork()
  const subject = new LossesUnderTest(through)
  await subject.start('with an inbox', ['a'], 1, async (_, __, run) => {
    if (run > 6) return
    await network.down()
    setTimeout(() => void network.up(), 30)
  })
  await subject.ended(1)
  expect(subject.heard('handled')).toMatchObject([{ message: { id: 'a' }, deliveries: 1 }])
  expect(subject.runs.length).toBeGreaterThan(6)
  expect(subject.heard('unavailable').length).toBeGreaterThan(0)
  expect(subject.heard('dead-lettered')).toEqual([])
})

test('C11 a handler that hides the end of its connection is tried three times uncounted, and then counted', async () => {
  const subject = new LossesUnderTest()
  await subject.start(
    'with an inbox',
    ['killer'],
    2,
    async (tx) => {
      await kill(tx)
      await target.exec(tx, 'select 1').catch(() => undefined)
    },
    { writes: false },
  )
  await subject.ended(1)
  expect(subject.heard('dead-lettered')).toMatchObject([{ message: { id: 'killer' } }])
  expect(subject.runs.map(({ deliveries }) => deliveries)).toEqual([1, 1, 1, 1, 2])
})

test('C11 the network error of another system is a failure of the handler, and counts', async () => {
  const subject = new LossesUnderTest()
  await subject.start('with an inbox', ['a'], 2, () => {
    throw Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:9'), { code: 'ECONNREFUSED' })
  })
  await subject.ended(1)
  expect(subject.runs.map(({ deliveries }) => deliveries)).toEqual([1, 2])
  expect(subject.heard('unavailable')).toEqual([])
})
