import { InvalidMessageError, InvalidOptionError } from '@txbox/core'
import { expect, test } from 'vitest'
import { LocalUnderTest, type Published } from '../../support/subjects/local-under-test.ts'
import {
  createLocalConsumer,
  createLocalOutbox,
  type NewLocalMessage,
} from '../../support/subjects/local-parts.ts'
import { onEachKind, useRoot, useTarget, mainKind } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const usual = useRoot(target, mainKind(target), { max: 8 })

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  const UNROUTED: Readonly<Record<string, Published>> = {
    'a type that nobody has': { type: 'paied' },
    'no type': { type: undefined },
    'a type that differs in case': { type: 'Made' },
    'a type with a space at its end': { type: 'made ' },
  }
  for (const registered of [false, true]) {
    const how = registered ? 'with registrations' : 'by the given subscriptions'
    test.for(Object.entries(UNROUTED))(
      `L3 a message with neither a topic nor a subscriber is refused, and nothing of its call is stored: %s, ${how}`,
      async ([, message]) => {
        const options = registered ? { subscriptions: 'registered' } : {}
        const subject = new LocalUnderTest(target, root, ['billing'], options)
        if (registered) {
          await target.sql(
            `insert into ${subject.table('subscriptions')} (type, consumer${target.engine === 'postgres' ? '' : ', registered_at'})
             values (?, ?${target.engine === 'postgres' ? '' : ', utc_timestamp(6)'})`,
            [target.engine === 'postgres' ? 'made' : Buffer.from('made'), subject.parameterOf()],
          )
        }
        const transaction = await root.begin()
        const [ordinary, also] = [{ key: 'a' }, { topic: 'orders', type: 'other' }]
        const error: unknown = await subject.outbox
          .publish(
            transaction.tx,
            [ordinary, message, also].map((one): NewLocalMessage =>
              Object.assign({ type: 'made', payload: {} }, one),
            ),
          )
          .catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(InvalidMessageError)
        // The error names the type, and those that have subscribers.
        if (message.type !== undefined) expect(String(error)).toContain(message.type)
        expect(String(error)).toContain('made')
        // The transaction is usable: the caller may handle the error.
        const id = await subject.publishIn(transaction, { key: 'a' })
        await target.effect(transaction.tx, subject.name())
        await transaction.commit()
        expect(await target.effects(subject.name())).toBe(1)
        expect(await subject.waiting()).toBe(1)
        expect(await outbox.backlog()).toEqual([])
        await target.sql(`delete from ${subject.table('subscriptions')}`)
        expect(id).not.toBe('')
      },
    )
  }

  test('L3 a message with a topic needs no subscriber, whatever its type', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish({ type: 'other', topic: 't' }, { type: undefined, topic: 't' })
    expect((await outbox.backlog()).map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    expect(await subject.waiting()).toBe(0)
  })

  test("L3 with unrouted: 'ignore' a message for nobody is accepted and stored nowhere; the others of its call are stored", async () => {
    const subject = new LocalUnderTest(target, root, ['billing'], { unrouted: 'ignore' })
    const ids = await subject.publishTogether([
      { key: 'a' },
      { type: 'nobody' },
      { type: 'nobody', topic: 't' },
    ])
    expect(new Set(ids).size).toBe(3)
    expect(await subject.waiting()).toBe(1)
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual([ids[2]])
  })

  test("L3 with unrouted: 'ignore' a message for nobody is still checked", async () => {
    const subject = new LocalUnderTest(target, root, ['billing'], { unrouted: 'ignore' })
    const bad: readonly object[] = [{ payload: 1n }, { key: '' }, { id: 'x'.repeat(256) }, { topci: 't' }]
    for (const message of bad) {
      await expect(subject.publish({ type: 'nobody', ...message })).rejects.toThrow(InvalidMessageError)
    }
  })
})

test('L3 without subscriptions a message must have a topic', async () => {
  const plain = createLocalOutbox({ database: usual.database })
  const transaction = await usual.begin()
  await expect(plain.publish(transaction.tx, { type: 'made', payload: {} })).rejects.toThrow(
    InvalidMessageError,
  )
  await transaction.rollback()
})

test.for<object>([
  { subscriptions: { made: ['@billing'] } },
  { subscriptions: { made: [''] } },
  { subscriptions: { made: ['ä'] } },
  { subscriptions: { made: ['a b'] } },
  { subscriptions: { made: ['x'.repeat(101)] } },
  { subscriptions: { made: ['billing', 'billing'] } },
  { subscriptions: { made: [] } },
  { subscriptions: { '': ['billing'] } },
  { subscriptions: { ['t'.repeat(256)]: ['billing'] } },
  { subscriptions: { made: 'billing' } },
  { subscriptions: 'all' },
  { subscriptions: { made: ['billing'] }, unrouted: 'drop' },
  { unrouted: 'ignore' },
])('L3 an outbox with wrong options is refused when it is created: %j', (options) => {
  expect(() => createLocalOutbox({ database: usual.database, ...options })).toThrow(InvalidOptionError)
})

const handler = (): undefined => undefined
test.for<object>([
  { consumer: '@billing' },
  { consumer: '' },
  { consumer: 'x'.repeat(101) },
  { consumer: 'ä' },
  { consumer: undefined },
  { handlers: {} },
  { handlers: { made: 'handler' } },
  { handlers: undefined },
  { handler },
  { concurrency: 0 },
  { concurrency: 1.5 },
  { batch: { maxSize: 0 } },
  { batch: { maxSize: 10, lingerMs: -1 } },
  { handleTimeoutMs: 1 },
  { leaseMs: 1 },
  { retry: { attempts: 0, delayMs: () => 1 } },
  { pollIntervalMs: { min: 100, max: 10 } },
  { isolationLevel: 'serializable' },
  { database: target.detached() },
])('L3 a local consumer with wrong options is refused when it is created: %j', (options) => {
  const usualOptions = { database: usual.database, consumer: 'billing', handlers: { made: handler } }
  expect(() => createLocalConsumer({ ...usualOptions, ...options })).toThrow(InvalidOptionError)
})
