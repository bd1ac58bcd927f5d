import { atLeastOnce, createLocalConsumer } from '@txbox/consumer'
import { InvalidOptionError } from '@txbox/core'
import { postgres } from '@txbox/postgres'
import { Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'

const pool = new Pool({ max: 20 })
const handler = (): undefined => undefined
const options = { database: postgres({ db: pool }), consumer: 'billing', handlers: { made: handler } }

function create(changed: object): unknown {
  return createLocalConsumer({ ...options, ...changed } as never)
}

const WRONG: Readonly<Record<string, readonly [changed: object, text: RegExp]>> = {
  'no database': [{ database: undefined }, /'database' must be the result of postgres\(\) or mysql\(\)/],
  'a database without a db': [{ database: postgres() }, /cannot open connections/],
  'a pool itself': [{ database: pool }, /must be the result of postgres\(\)/],
  'no name': [{ consumer: undefined }, /'consumer' must be text of 1 to 100 characters/],
  'a long name': [{ consumer: 'a'.repeat(101) }, /'consumer' must be text of 1 to 100 characters/],
  'a name with a space': [{ consumer: 'my billing' }, /visible ASCII characters \(! to ~, no spaces\)/],
  'a name that is not ASCII': [{ consumer: 'Rechnung–1' }, /visible ASCII/],
  'a name of txbox': [{ consumer: '@queue' }, /does not begin with '@'/],
  'no handlers': [{ handlers: undefined }, /'handlers' must be an object with a handler for each type/],
  'a handler for nothing': [{ handlers: {} }, /'handlers' must be an object with a handler for each type/],
  'a list of handlers': [{ handlers: [handler] }, /'handlers' must be an object/],
  'a handler that is no function': [
    { handlers: { made: 'handle' } },
    /handler of the type 'made' must be a function/,
  ],
  'a type without characters': [{ handlers: { '': handler } }, /text of 1 to 255 characters/],
  'a long type': [{ handlers: { ['x'.repeat(256)]: handler } }, /text of 1 to 255 characters/],
  'a misspelt option': [{ concurency: 3 }, /there is no option 'concurency'/],
  'no concurrency': [{ concurrency: 0 }, /'concurrency' must be a whole number from 1 to 10000/],
  'too many batches': [{ concurrency: 1001, batch: { maxSize: 2 } }, /from 1 to 1000/],
  'a batch of nothing': [{ batch: { maxSize: 0 } }, /createLocalConsumer, option 'batch': .*'maxSize'/],
  'another order': [{ order: 'none' }, /'order' must be 'per-key'/],
  'a policy without attempts': [{ retry: { delayMs: handler } }, /'retry' must be a retry policy/],
  'no time-out': [{ handleTimeoutMs: Infinity }, /'handleTimeoutMs' must be a number of milliseconds/],
  'a short lease': [{ leaseMs: 100 }, /'leaseMs'/],
  'a wrong interval': [{ pollIntervalMs: { min: 50, max: 20 } }, /pollIntervalMs: the option 'max'/],
  'another isolation level': [
    { isolationLevel: 'serializable' },
    /'isolationLevel' must be 'read committed' or 'repeatable read'/,
  ],
  'a logger that is none': [{ logger: {} }, /'logger' must be an object with the methods warn and error/],
  'a signal that is none': [{ signal: {} }, /'signal' must be an AbortSignal/],
}

test.each(Object.entries(WRONG))('L9 %s is refused when the consumer is created', (_, [changed, text]) => {
  expect(() => create(changed)).toThrow(InvalidOptionError)
  expect(() => create(changed)).toThrow(text)
})

test('L9 a pool of one connection is refused', () => {
  const one = new Pool({ max: 1 })
  expect(() => create({ database: postgres({ db: one }) })).toThrow(/the pool has only one connection/)
})

test('L8 atLeastOnce takes functions only', () => {
  expect(() => atLeastOnce('handler' as never)).toThrow(InvalidOptionError)
})

test('a consumer whose signal is aborted already does not start', async () => {
  const consumer = createLocalConsumer({ ...options, signal: AbortSignal.abort() })
  await expect(consumer.start()).rejects.toThrow(
    'start: this local consumer has been stopped. Create another with createLocalConsumer.',
  )
  await expect(consumer.drain()).rejects.toThrow(InvalidOptionError)
})

test('a consumer that was never started has figures, and stops', async () => {
  const consumer = createLocalConsumer(options)
  onTestFinished(() => consumer.stop())
  expect(consumer.figures).toEqual({ inHand: 0, running: 0, waiting: 0, retrying: 0 })
  expect(consumer.concurrency).toBe(10)
  await expect(consumer.drain({ deadlineMs: 0 })).rejects.toThrow(/'deadlineMs'/)
  await consumer.stop()
  await consumer.stopped
})
