import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { InvalidMessageError, TransactionConflictError } from '@txbox/core'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { LocalRowsUnderTest, messageFor } from '../support/subjects/local-rows-under-test.ts'
import { ISOLATIONS, kindsOfTier, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

async function subscribe(...pairs: readonly (readonly [type: string, consumer: string])[]): Promise<void> {
  for (const [type, consumer] of pairs) {
    await target.sql(
      'insert into txbox_subscriptions (registered_at, type, consumer) values (utc_timestamp(6), ?, ?)',
      [type, consumer],
    )
  }
}

for (const isolation of ISOLATIONS) {
  describe.each(kindsOfTier(target).map((kind) => [kind.name, kind] as const))(
    `%s, ${isolation}`,
    (_, kind) => {
      const root = useRoot(target, kind, { isolation, max: 6 })
      let local: LocalRowsUnderTest

      beforeAll(() => {
        local = new LocalRowsUnderTest(root, target)
      })
      beforeEach(async () => {
        await outbox.clear()
      })

      const registered = { given: new Map<string, string[]>(), registered: true } as const

      test('L2 each subscriber gets a row, by message and consumer, and a message with a topic is in the outbox too', async () => {
        await subscribe(['a', 'x'], ['a', 'y'], ['b', 'y'])
        const messages = [
          messageFor({ type: 'a', key: 'k' }),
          messageFor({ type: 'b', topic: 'orders', payload: Buffer.alloc(5000, 255) }),
          messageFor({ type: 'a' }),
          messageFor({ type: undefined, topic: 'orders' }),
        ]
        const transaction = await root.begin()
        await local.append(transaction, messages, {
          ...registered,
          given: new Map([
            ['a', ['w', 'y']],
            ['b', ['w']],
          ]),
        })
        await transaction.commit()
        const [first, second, third, fourth] = messages.map(({ id }) => id)
        expect((await local.rowsOf('outbox')).map(({ id, consumer }) => [id, consumer])).toEqual([
          [first, 'w'],
          [first, 'x'],
          [first, 'y'],
          [second, 'w'],
          [second, 'y'],
          [third, 'w'],
          [third, 'x'],
          [third, 'y'],
        ])
        expect((await outbox.backlog()).map(({ id }) => id)).toEqual([second, fourth])
        const read = await local.store.read(
          { consumer: 'w', shard: 3 },
          { messages: 10, bytes: 1_000_000 },
          { after: undefined, without: [] },
        )
        expect(read.messages.map(({ topic, key, payload }) => [topic, key, payload.byteLength])).toEqual([
          [undefined, 'k', 2],
          ['orders', undefined, 5000],
          [undefined, undefined, 2],
        ])
      })

      test('L2 types are compared as bytes', async () => {
        await subscribe(['a', 'lower'], ['A', 'upper'], ['a ', 'space'], ['ä', 'umlaut'])
        const transaction = await root.begin()
        await local.append(transaction, [messageFor({ type: 'a ' }), messageFor({ type: 'A' })], registered)
        await transaction.commit()
        expect((await local.rowsOf('outbox')).map(({ consumer }) => consumer)).toEqual(['space', 'upper'])
      })

      test('L3 nothing of a call with a message for nobody is stored, and the transaction can be used on', async () => {
        await subscribe(['known', 'x'])
        const transaction = await root.begin()
        await target.effect(transaction.tx, `${kind.name} ${isolation} refused`)
        const calls = [
          [messageFor({ type: 'known', topic: 'orders' }), messageFor({ type: 'nobody' })],
          [messageFor({ type: 'known' }), messageFor({ type: undefined })],
          [messageFor({ type: 'known' }), messageFor({ type: 'nobody', deliverAt: new Date() })],
        ]
        for (const messages of calls) {
          const refused = local.append(transaction, messages, registered)
          await expect(refused).rejects.toThrow(InvalidMessageError)
          await expect(refused).rejects.toThrow(/known/)
        }
        const id = messageFor({ type: 'known' })
        await local.append(transaction, [id], registered)
        await transaction.commit()
        expect((await local.rowsOf('outbox')).map((row) => row.id)).toEqual([id.id])
        expect(await local.rowsOf('parked')).toEqual([])
        expect(await outbox.backlogSize()).toBe(0)
        expect(await target.effects(`${kind.name} ${isolation} refused`)).toBe(1)
      })

      test('L3 a message for nobody is not stored if the outbox ignores such messages', async () => {
        await subscribe(['known', 'x'])
        const transaction = await root.begin()
        const [one, other, third] = [
          messageFor({ type: 'nobody' }),
          messageFor({ type: 'known' }),
          messageFor({ type: undefined, topic: 'orders' }),
        ]
        await local.append(transaction, [one, other, third], { ...registered, unrouted: 'ignore' })
        await transaction.commit()
        expect((await local.rowsOf('outbox')).map(({ id }) => id)).toEqual([other.id])
        expect((await outbox.backlog()).map(({ id }) => id)).toEqual([third.id])
      })

      test('L2 the subscriptions are read by the statement that stores the messages', async () => {
        const transaction = await root.begin()
        // At REPEATABLE READ, this read makes the snapshot of the transaction.
        await transaction.exec('select count(*) from txbox_subscriptions')
        await subscribe(['late', 'x'])
        const stored = local.append(transaction, [messageFor({ type: 'late' })], registered)
        if (target.refusesNewer(isolation)) {
          await expect(stored).rejects.toThrow(TransactionConflictError)
          return transaction.rollback()
        }
        await stored
        await transaction.commit()
        expect(await local.rowsOf('outbox')).toMatchObject([{ consumer: 'x' }])
      })

      test('L2 a call that waits for the lock of a key reads the subscriptions after the wait', async () => {
        // At REPEATABLE READ, a registration waits for the publishers.
        if (isolation !== 'read committed') await subscribe(['b', 'y'])
        await subscribe(['a', 'x'])
        const [first, second] = [await root.begin(), await root.begin()]
        await local.append(first, [messageFor({ type: 'a', key: 'k' })], registered, true)
        const waiting = local.append(second, [messageFor({ type: 'b', key: 'k' })], registered, true)
        waiting.catch(() => undefined)
        await target.blocked(1)
        if (isolation === 'read committed') await subscribe(['b', 'y'])
        await first.commit()
        await waiting
        await second.commit()
        expect((await local.rowsOf('outbox')).map(({ consumer }) => consumer)).toEqual(['x', 'y'])
      })

      test('a scheduled message waits among the parked messages of each subscriber, and blocks no key', async () => {
        const deliverAt = new Date('2031-02-03T04:05:06.789Z')
        const transaction = await root.begin()
        await local.append(transaction, [messageFor({ key: 'k', topic: 'orders', deliverAt })], {
          given: new Map([['order.placed', ['x', 'y']]]),
        })
        await transaction.commit()
        const rows = await target.sql(
          `select cast(consumer as char) as consumer, order_key is null as free, cast(due_at as char) as due, cast(deliver_at as char) as deliver
         from txbox_local_parked order by place`,
        )
        expect(rows).toEqual(
          ['x', 'y'].map((consumer) => ({
            consumer,
            free: 1,
            due: '2031-02-03 04:05:06.789000',
            deliver: '2031-02-03 04:05:06.789000',
          })),
        )
        expect((await outbox.parked()).length).toBe(1)
      })

      test('a call with many messages is stored in its order', async () => {
        const messages = Array.from({ length: 1201 }, (_, n) => messageFor({ key: `k${n % 7}` }))
        const transaction = await root.begin()
        await local.append(transaction, messages, {
          ...registered,
          given: new Map([['order.placed', ['x']]]),
        })
        await transaction.commit()
        expect((await local.rowsOf('outbox')).map(({ id }) => id)).toEqual(messages.map(({ id }) => id))
      })

      test('L3 what a call has stored in earlier packets is deleted again if a later one has a message for nobody', async () => {
        await subscribe(['known', 'x'])
        const messages = Array.from({ length: 600 }, () => messageFor({ type: 'known', topic: 'orders' }))
        const transaction = await root.begin()
        const refused = local.append(transaction, [...messages, messageFor({ type: 'nobody' })], registered)
        await expect(refused).rejects.toThrow(InvalidMessageError)
        await transaction.commit()
        expect(await local.rowsOf('outbox')).toEqual([])
        expect(await outbox.backlogSize()).toBe(0)
      })

      test('register adds missing types only, and waits for no publisher if nothing is missing', async () => {
        const subscriptions = local.ports.subscriptions()
        expect(await subscriptions.register('x', ['b', 'a', 'ä'])).toEqual(['a', 'b', 'ä'])
        const transaction = await root.begin()
        await local.append(transaction, [messageFor({ type: 'a' })], registered)
        expect(await subscriptions.register('x', ['a', 'b'])).toEqual([])
        await transaction.commit()
        expect(await subscriptions.register('w', ['a', 'c'])).toEqual(['a', 'c'])
        expect(await subscriptions.register('w', ['d', 'a'])).toEqual(['d'])
        const list = await subscriptions.list()
        expect(list.map(({ consumer, type }) => `${consumer} ${type}`)).toEqual([
          'w a',
          'w c',
          'w d',
          'x a',
          'x b',
          'x ä',
        ])
        expect(list.every(({ registeredAt }) => Math.abs(Date.now() - registeredAt.getTime()) < 60_000)).toBe(
          true,
        )
      })
    },
  )
}
