import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import {
  PermanentError,
  RetryLaterError,
  createConsumer,
  type Consumer,
  type ConsumerContext,
  type Guard,
  type InboxMessage,
} from '@txbox/consumer'
import { TxboxError, type TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

type Handler = (tx: TransactionHandle, message: InboxMessage, context: ConsumerContext) => unknown

/** A consumer with an inbox, whose effects have the name of the message behind its own. */
class OnceUnderTest {
  readonly name = `consumer-${randomUUID()}`
  readonly events: ConsumerUnderTest['events'] = []
  readonly batches: string[][] = []
  readonly source: MemorySource
  consumer!: Consumer

  readonly #root: Root

  constructor(source = new MemorySource(), through = root) {
    this.source = source
    this.#root = through
  }

  readonly #options = () => ({
    source: this.source,
    inbox: createInbox<TransactionHandle>({
      database: this.#root.database,
      consumer: this.name,
      inFlight: 'wait',
    }),
    logger: false as const,
    retry: { attempts: 5, delayMs: () => 10 },
  })

  async start(handler: Handler, options: object = {}): Promise<this> {
    return this.#started(
      createConsumer({
        ...this.#options(),
        handler: async (tx, message, context) => {
          await this.effect(tx, message)
          return handler(tx, message, context)
        },
        ...options,
      }),
    )
  }

  async startBatch(handler: Handler, options: object = {}): Promise<this> {
    return this.#started(
      createConsumer({
        ...this.#options(),
        batch: { maxSize: 10, lingerMs: 20 },
        concurrency: 1,
        handler: async (tx, messages, contexts) => {
          this.batches.push(messages.map(({ id }) => id))
          for (const [n, message] of messages.entries()) {
            await this.effect(tx, message)
            await handler(tx, message, contexts[n]!)
          }
        },
        ...options,
      }),
    )
  }

  async startOnDatabase(handler: Handler, options: object = {}): Promise<this> {
    return this.#started(
      createConsumer({
        ...{ source: this.source, logger: false, retry: { attempts: 5, delayMs: () => 10 } },
        database: this.#root.database,
        name: this.name,
        handler: async (tx: TransactionHandle, message: InboxMessage, context: ConsumerContext) => {
          await this.effect(tx, message)
          return handler(tx, message, context)
        },
        ...options,
      }),
    )
  }

  effect(tx: TransactionHandle, { id }: InboxMessage): Promise<void> {
    return target.effect(tx, `${this.name} ${id}`)
  }

  effects(id: string): Promise<number> {
    return target.effects(`${this.name} ${id}`)
  }

  count(event: string): number {
    return this.events.filter((one) => one.event === event).length
  }

  /** The outcomes of the handled messages, by id. */
  get outcomes(): Record<string, unknown> {
    const handled = this.events.filter(({ event }) => event === 'handled')
    return Object.fromEntries(handled.map(({ id, value }) => [id, Reflect.get(value, 'outcome')]))
  }

  async heard(event: string, count = 1): Promise<void> {
    await until(
      async () => this.count(event) >= count,
      () => `${count} ${event}: ${JSON.stringify(this.events)}`,
    )
  }

  async #started(consumer: Consumer): Promise<this> {
    this.consumer = consumer
    listen(consumer, this.events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    return this
  }
}

test('C1 C11 a handler that fails leaves no effect; the next attempt has one effect', async () => {
  const subject = await new OnceUnderTest().start((_tx, _message, { deliveries }) => {
    if (deliveries < 3) throw new Error('failed')
  })
  subject.source.send('a')
  await subject.heard('handled')
  expect(await subject.effects('a')).toBe(1)
  expect(subject.count('retried')).toBe(2)
})

test('C14 a local retry begins after the previous attempt was rolled back; its success is one accept', async () => {
  const seen: object[] = []
  const subject = await new OnceUnderTest().start(async (_tx, { id }, { localRetries, deliveries }) => {
    seen.push({ localRetries, deliveries, effects: await subject.effects(id) })
    if (localRetries < 2) throw new RetryLaterError()
  })
  subject.source.send('a')
  await subject.heard('handled')
  expect(seen).toEqual([0, 1, 2].map((localRetries) => ({ localRetries, deliveries: 1, effects: 0 })))
  expect(await subject.effects('a')).toBe(1)
  expect(subject.source.how('a')).toEqual(['accept'])
})

test('C2 a redelivery is accepted as a duplicate', async () => {
  const subject = await new OnceUnderTest().start(() => undefined)
  // The connection breaks after COMMIT, before the accept.
  subject.source.onAccept = () => {
    if (subject.source.opened === 1) subject.source.cut()
  }
  subject.source.send('a')
  await until(
    async () => subject.source.left.length === 0,
    () => 'a is accepted',
  )
  expect(subject.outcomes['a']).toBe('duplicate')
  expect(await subject.effects('a')).toBe(1)
})

test('C2 guard: a stale message is claimed and accepted without a call of the handler', async () => {
  const guard: Guard<TransactionHandle> = async (_tx, { id }) => (id === 'old' ? 'stale' : 'apply')
  const subject = await new OnceUnderTest().start(
    (_tx, { id }) => ({ status: id === 'same' ? 'already' : 'applied' }),
    {
      guard,
    },
  )
  for (const id of ['old', 'new', 'same']) subject.source.send(id)
  await subject.heard('handled', 3)
  expect(subject.outcomes).toEqual({ old: 'stale', new: 'processed', same: 'already' })
  expect(await subject.effects('old')).toBe(0)
  expect((await target.claims(subject.name)).length).toBe(3)
})

test('C10 PermanentError rolls back effects and claim, and makes a dead letter', async () => {
  const subject = await new OnceUnderTest().start(() => {
    throw new PermanentError('never')
  })
  subject.source.send('a')
  await subject.heard('dead-lettered')
  expect(await subject.effects('a')).toBe(0)
  expect(await target.claims(subject.name)).toEqual([])
})

test('C19 at handleTimeoutMs the transaction is rolled back; what the handler does later commits nothing', async () => {
  const late = Promise.withResolvers<void>()
  const subject = await new OnceUnderTest().start(
    async (tx, message, { deliveries }) => {
      if (deliveries > 1) return
      await new Promise((resolve) => setTimeout(resolve, 400))
      await subject.effect(tx, message).catch(() => undefined)
      late.resolve()
    },
    { handleTimeoutMs: 200 },
  )
  subject.source.send('a')
  await subject.heard('handled')
  await late.promise
  expect(subject.count('retried')).toBe(1)
  expect(await subject.effects('a')).toBe(1)
})

test('C26 a batch is one transaction', async () => {
  const subject = await new OnceUnderTest().startBatch(() => undefined)
  for (const id of ['a', 'b', 'c']) subject.source.send(id)
  await subject.heard('handled', 3)
  expect(subject.batches).toEqual([['a', 'b', 'c']])
  for (const id of ['a', 'b', 'c', 'a']) subject.source.send(id)
  await subject.heard('handled', 7)
  expect(subject.batches.length).toBe(1)
  expect(await subject.effects('a')).toBe(1)
})

test('C26 after a batch has failed, its messages are handled one by one in order, and only the failing message is counted', async () => {
  const subject = await new OnceUnderTest().startBatch((_tx, { id }) => {
    if (id === 'b') throw new PermanentError('never')
  })
  for (const id of ['a', 'b', 'c']) subject.source.send(id)
  await subject.heard('handled', 2)
  await subject.heard('dead-lettered')
  expect(subject.batches).toEqual([['a', 'b', 'c'], ['a'], ['b'], ['c']])
  expect(await Promise.all(['a', 'b', 'c'].map((id) => subject.effects(id)))).toEqual([1, 0, 1])
  expect(subject.source.rejected.map(({ id }) => id)).toEqual(['b'])
  expect(subject.count('retried')).toBe(0)
})

test('C1 with a database the delivery is settled in the transaction, as its first statement', async () => {
  const source = new MemorySource({ settlesInTransaction: true })
  const settledIn: unknown[] = []
  source.settleIn = async (tx) => void settledIn.push(tx)
  const handled: unknown[] = []
  const subject = await new OnceUnderTest(source).startOnDatabase((tx) => void handled.push(tx))
  source.send('a')
  await subject.heard('handled')
  expect(settledIn).toEqual(handled)
  expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
  expect(await subject.effects('a')).toBe(1)
})

test('C1 C6 with a database, a delivery that another consumer has received is lost, without an effect and without a failure', async () => {
  const source = new MemorySource({ settlesInTransaction: true })
  source.settleIn = () => Promise.reject(new TxboxError('TXBOX_RECEIPT_EXPIRED', 'expired'))
  const subject = await new OnceUnderTest(source).startOnDatabase(() => undefined)
  source.send('a')
  await subject.heard('lost')
  expect(await subject.effects('a')).toBe(0)
  expect(source.settled).toEqual([])
  expect(subject.consumer.figures.inHand).toBe(0)
  expect(subject.count('retried') + subject.count('handled')).toBe(0)
})

test('C24 while the database is down all messages wait and no attempt is counted; afterwards each message has one effect', async () => {
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const subject = await new OnceUnderTest(new MemorySource(), through).start(() => undefined, {
    retry: { attempts: 1, delayMs: () => 0 },
  })
  subject.source.send('before')
  await subject.heard('handled')
  const outage = proxy.refuse()
  const ids = Array.from({ length: 20 }, (_, n) => `m${n}`)
  for (const id of ids) subject.source.send(id)
  await subject.heard('unavailable', 2)
  outage.over()
  await subject.heard('handled', 21)
  expect(subject.count('retried') + subject.count('dead-lettered')).toBe(0)
  expect(subject.source.settled.every(({ how }) => how === 'accept')).toBe(true)
  expect(await Promise.all(ids.map((id) => subject.effects(id)))).toEqual(ids.map(() => 1))
})

test('C1 the connection breaks during COMMIT: the message is tried again, and has one effect', async () => {
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const subject = await new OnceUnderTest(new MemorySource(), through).start(() => undefined)
  for (const [n, fault] of (['cutBefore', 'cutAfter'] as const).entries()) {
    proxy[fault](/commit/i)
    subject.source.send(`m${n}`)
    await subject.heard('handled', n + 1)
    expect(await subject.effects(`m${n}`)).toBe(1)
  }
  // The first was rolled back; the second had committed.
  expect(subject.outcomes).toEqual({ m0: 'processed', m1: 'duplicate' })
  expect(subject.count('retried')).toBe(0)
})
