import { InvalidOptionError, exponentialBackoff } from '@txbox/core'
import { postgres } from '@txbox/postgres'
import { atLeastOnce, createTxbox, publishEach, type TxboxConsumerOptions } from 'txbox'
import { Pool } from 'pg'
import { StubTelemetry } from '../support/subjects/stub-telemetry.ts'
import { expect, onTestFinished, test } from 'vitest'
import { MemorySource } from '../support/subjects/memory-source.ts'

const pool = new Pool({ max: 20 })
const database = postgres({ db: pool })
const handler = (): undefined => undefined
const source = new MemorySource()
const publisher = publishEach(handler)
const consumers = { billing: { made: handler } }
const sources = { payments: { source, handlers: { paid: handler } } }

function create(changed: object): ReturnType<typeof createTxbox> {
  return createTxbox({ database, ...changed } as never)
}

const WRONG: Readonly<Record<string, readonly [changed: object, text: RegExp]>> = {
  'no database': [
    { database: undefined },
    /^createTxbox: the option 'database' must be the result of postgres/,
  ],
  'a database without a db': [{ database: postgres() }, /^createTxbox: .*cannot open connections/],
  'a pool itself': [{ database: pool }, /must be the result of postgres\(\)/],
  'a misspelt option': [{ consumer: consumers }, /^createTxbox: there is no option 'consumer'/],
  'a list of consumers': [
    { consumers: [handler] },
    /'consumers' must be a plain object of names and consumers/,
  ],
  'a map of consumers': [{ consumers: new Map() }, /'consumers' must be a plain object/],
  'a name with a space': [{ consumers: { 'my billing': { made: handler } } }, /1 to 100 visible ASCII/],
  'a name of txbox': [{ consumers: { '@queue': { made: handler } } }, /does not begin with '@'/],
  'a name of another part': [
    { consumers: { relay: { made: handler } } },
    /consumers: 'relay' is the name of another part/,
  ],
  'a consumer and a source with one name': [
    { consumers: { payments: { made: handler } }, sources },
    /'payments' is a consumer and a source/,
  ],
  'a consumer that is a function': [
    { consumers: { billing: handler } },
    /'billing' must be an object of handlers by type/,
  ],
  'a consumer without handlers': [
    { consumers: { billing: {} } },
    /^createTxbox, consumer 'billing': createLocalConsumer: the option 'handlers' must be an object with a handler for each type/,
  ],
  'a handler for nothing': [
    { consumers: { billing: { handlers: {} } } },
    /consumer 'billing': .*'handlers' must be/,
  ],
  'a handler that is no function': [
    { consumers: { billing: { made: 'handle' } } },
    /consumer 'billing': .*handler of the type 'made' must be a function/,
  ],
  'a misspelt option of a consumer': [
    { consumers: { billing: { handlers: { made: handler }, concurency: 3 } } },
    /^createTxbox, consumer 'billing': there is no option 'concurency'/,
  ],
  'a database of a consumer': [
    { consumers: { billing: { handlers: { made: handler }, database } } },
    /consumer 'billing': there is no option 'database'/,
  ],
  'a wrong option of a consumer': [
    { consumers: { billing: { handlers: { made: handler }, concurrency: 0 } } },
    /consumer 'billing': .*'concurrency' must be a whole number/,
  ],
  'an isolation level that no consumer can have': [
    { consumers, isolationLevel: 'serializable' },
    /'isolationLevel' must be 'read committed' or 'repeatable read'/,
  ],
  'an empty list of subscribers': [
    { subscriptions: { made: [] } },
    /^createTxbox, publish: .*the type 'made' has an empty list of consumers/,
  ],
  'a subscriber twice': [{ subscriptions: { made: ['a', 'a'] } }, /names the consumer 'a' twice/],
  "'registered'": [{ subscriptions: 'registered' }, /those that are registered get their messages anyway/],
  'a subscription of a type without a handler': [
    { consumers, subscriptions: { misspelt: ['billing'] } },
    /subscriptions: the type 'misspelt' names 'billing', whose consumer in this box has no handler .*it has handlers for 'made'/,
  ],
  'a subscription of a source': [
    { sources, subscriptions: { made: ['payments'] } },
    /'payments', which is a source/,
  ],
  'another way to notify': [
    { notify: 'sometimes' },
    /^createTxbox, publish: createOutbox: the option 'notify' must be true, false or 'auto'/,
  ],
  'another way to wake a consumer': [
    { consumers: { billing: { handlers: { made: handler }, wakeup: 'never' } } },
    /consumer 'billing': .*'wakeup' must be 'auto'/,
  ],
  'another way of unrouted messages': [{ unrouted: 'drop' }, /'unrouted' must be 'refuse' or 'ignore'/],
  'a relay without a publisher': [{ relay: {} }, /'relay' needs the option 'publisher'/],
  'a relay that is true': [{ publisher, relay: true }, /'relay' must be false or an object of options/],
  'a wrong option of the relay': [
    { publisher, relay: { batchSize: 0 } },
    /^createTxbox, relay: createRelay: .*'batchSize'/,
  ],
  'a database of the relay': [
    { publisher, relay: { database } },
    /relay: the option 'database' is that of the box/,
  ],
  'a publisher that is none': [
    { publisher: handler },
    /^createTxbox: the option 'publisher' must be a Publisher/,
  ],
  'a publisher that is none, without a relay': [
    { publisher: handler, relay: false },
    /'publisher' must be a Publisher/,
  ],
  'a wrong option of the collector': [{ gc: { batchSize: 0 } }, /^createTxbox, gc: .*'batchSize'/],
  'a source without handlers': [
    { sources: { payments: { source } } },
    /^createTxbox, source 'payments': the option 'handlers' must be an object with a handler for each type/,
  ],
  'a handler of a source that is no function': [
    { sources: { payments: { source, handlers: { paid: 'handle' } } } },
    /source 'payments': the handler of the type 'paid' must be a function/,
  ],
  'a source that is none': [
    { sources: { payments: { source: {}, handlers: { paid: handler } } } },
    /source 'payments': .*'source' must be a source/,
  ],
  'a misspelt option of a source': [
    { sources: { payments: { source, handlers: { paid: handler }, inbox: {} } } },
    /source 'payments': there is no option 'inbox'/,
  ],
  'another way of unhandled messages': [
    { sources: { payments: { source, handlers: { paid: handler }, unhandled: 'wait' } } },
    /'unhandled' must be 'dead-letter' or 'ignore'/,
  ],
  'another way to migrate': [{ migrate: 'always' }, /'migrate' must be true, false or 'unless-production'/],
  'a flag that is none': [{ allowPGlite: 'yes' }, /'allowPGlite' must be true or false/],
  'signals that are none': [{ signals: ['SIGTERM'] }, /'signals' must be true or false/],
  'no time to stop': [{ stopTimeoutMs: Infinity }, /'stopTimeoutMs' must be a number of milliseconds/],
  'a logger that is none': [{ logger: {} }, /'logger' must be an object with the methods warn and error/],
  'a signal that is none': [{ signal: {} }, /'signal' must be an AbortSignal/],
}

test.each(Object.entries(WRONG))('%s is refused when the box is created', (_, [changed, text]) => {
  expect(() => create(changed)).toThrow(InvalidOptionError)
  expect(() => create(changed)).toThrow(text)
})

test('L9 a pool of one connection is refused when a consumer or a relay needs more', () => {
  const one = postgres({ db: new Pool({ max: 1 }) })
  expect(() => create({ database: one, consumers })).toThrow(
    /consumer 'billing': .*the pool has only one connection/,
  )
  expect(() => create({ database: one, publisher })).toThrow(/relay: .*The pool has only one connection/)
})

test('a box without consumers, and one with none by name, are legal', async () => {
  for (const changed of [{}, { consumers: {} }, { consumers: undefined, sources: {} }]) {
    const box = create(changed)
    expect([Object.keys(box.consumers), Object.keys(box.sources), box.relay]).toEqual([[], [], undefined])
    expect(box.gc).toBeDefined()
    await box.stop()
  }
})

test('every part of a box is reachable', () => {
  const box = create({ consumers, sources, publisher })
  onTestFinished(() => box.stop())
  expect(Object.keys(box.consumers)).toEqual(['billing'])
  expect(Object.keys(box.sources)).toEqual(['payments'])
  expect(box.relay).toBeDefined()
  expect(box.gc).toBeDefined()
  expect(box.deadLetters).toHaveProperty('list')
  expect(box.inbox('billing').consumer).toBe('billing')
  expect(() => box.inbox('')).toThrow(InvalidOptionError)
})

test('a consumer of a box has every option of a local consumer', () => {
  const billing: Required<TxboxConsumerOptions<unknown>> = {
    ...{ handlers: { made: handler }, concurrency: 1, order: 'per-key', retry: exponentialBackoff() },
    ...{ handleTimeoutMs: 1000, leaseMs: 1000, pollIntervalMs: { min: 10 }, wakeup: 'poll' },
    ...{ isolationLevel: 'repeatable read', logger: false, batch: undefined },
    ...{ telemetry: new StubTelemetry(), parent: 'link' },
  }
  for (const notify of ['auto', true, false]) {
    const box = create({ consumers: { billing }, notify })
    onTestFinished(() => box.stop())
    expect(Object.keys(box.consumers)).toEqual(['billing'])
  }
})

test("a type may be named 'handlers'", () => {
  for (const entry of [{ handlers: handler }, { handlers: atLeastOnce(handler) }]) {
    const box = create({ consumers: { billing: entry } })
    onTestFinished(() => box.stop())
    expect(Object.keys(box.consumers)).toEqual(['billing'])
  }
})

test('a wrong call of a box is refused', async () => {
  const box = create({})
  onTestFinished(() => box.stop())
  await expect(box.transact('work' as never)).rejects.toThrow(/transact: expected a function/)
  await expect(box.transact(async () => undefined, { attempts: 0 })).rejects.toThrow(
    /'attempts' must be a whole number/,
  )
  await expect(box.transact(async () => undefined, { retries: 1 } as never)).rejects.toThrow(
    /no option 'retries'/,
  )
  expect(() => box.on('troubles' as never, handler)).toThrow(/'event' must be 'trouble'/)
  await expect(box.stop({ timeout: 1 } as never)).rejects.toThrow(/no option 'timeout'/)
})
