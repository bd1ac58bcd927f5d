import { describe, expect, onTestFinished, test } from 'vitest'
import { InvalidMessageError, LIMITS, TransactionConflictError, type NewMessage } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { createOutbox, type Outbox } from '@txbox/outbox'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { randomFrom } from '../../support/worlds/random.ts'
import { messagesOf, outboxOf, publishAll } from '../../support/subjects/relay-under-test.ts'
import { onEachKind, onEachKindAndIsolation, useRoot, useTarget } from '../../support/engines/target.ts'
import type { OpenTransaction, Root } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const SEED = 20_260_102
const onPostgres = target.engine === 'postgres'

function lockingOutboxOf(root: Root): Outbox {
  return createOutbox({ database: root.database, lockKeys: true })
}

/** The ids of the backlog in the order of their numbers, across all shards. */
async function idsByNumber(): Promise<string[]> {
  const rows = [...(await outbox.backlog())].sort((a, b) => Number(a.seq) - Number(b.seq))
  return rows.map(({ id }) => id)
}

function named(id: string, key: string | undefined, more: object = {}): NewMessage & { topic: string } {
  return { topic: 'test', id, key, payload: null, ...more }
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => [random(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item)
}

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: 6 })

  /** Publishes messages whose key another transaction has locked. */
  async function waitingFor(
    transaction: OpenTransaction,
    messages: NewMessage | readonly NewMessage[],
  ): Promise<{ published: Promise<unknown> }> {
    const published = lockingOutboxOf(root).publish(transaction.tx, messages)
    published.catch(() => undefined)
    await target.blocked(1)
    return { published }
  }

  for (const [what, later] of [
    ['one message', named('later', 'hot')],
    ['an array', [named('unkeyed', undefined), named('later', 'hot'), named('later still', 'hot')]],
  ] as const) {
    for (const end of ['commit', 'rollback'] as const) {
      test(`O3 with lockKeys a key waits for the ${end} before it, and numbers are drawn after that: ${what}`, async () => {
        const [first, second, third] = [await root.begin(), await root.begin(), await root.begin()]
        await lockingOutboxOf(root).publish(first.tx, named('earlier', 'hot'))
        const { published } = await waitingFor(second, later)
        // Keys that are free do not wait, and get their numbers first.
        await lockingOutboxOf(root).publish(third.tx, [named('meanwhile', 'cold'), named('meanwhile 2', 'x')])
        await third.commit()
        await first[end]()
        await published
        await second.commit()
        const laterIds = [later].flat().map(({ id }) => id)
        expect(await idsByNumber()).toEqual([
          ...(end === 'commit' ? ['earlier'] : []),
          ...['meanwhile', 'meanwhile 2'],
          ...laterIds,
        ])
      })
    }
  }

  test('O3 with lockKeys a second message of a key does not wait in the same transaction', async () => {
    const transaction = await root.begin()
    const publisher = lockingOutboxOf(root)
    for (const id of ['1', '2']) await publisher.publish(transaction.tx, named(id, 'hot'))
    await publisher.publish(transaction.tx, [named('3', 'hot'), named('4', 'hot')])
    await transaction.commit()
    expect(await idsByNumber()).toEqual(['1', '2', '3', '4'])
  })

  test('O3 with lockKeys a rollback to a savepoint keeps the locks from before it', async () => {
    const [first, second] = [await root.begin(), await root.begin()]
    await lockingOutboxOf(root).publish(first.tx, named('kept', 'before'))
    await first.savepoint('here')
    await lockingOutboxOf(root).publish(first.tx, [named('undone 1', 'before'), named('undone 2', 'after')])
    await first.rollbackTo('here')
    if (onPostgres) {
      // PostgreSQL frees what was locked since the savepoint; InnoDB frees locks at the end of the transaction only.
      const third = await root.begin()
      await lockingOutboxOf(root).publish(third.tx, named('free', 'after'))
      await third.rollback()
    } else {
      const third = await root.begin()
      await target.limitLockWait(third, 1000)
      const published = lockingOutboxOf(root).publish(third.tx, named('not free', 'after'))
      await expect(published).rejects.toThrow(TransactionConflictError)
      await third.rollback()
    }
    const { published } = await waitingFor(second, named('later', 'before'))
    await first.commit()
    await published
    await second.commit()
    expect(await idsByNumber()).toEqual(['kept', 'later'])
  })

  test('O3 with lockKeys a row of the other transaction can be changed after the wait, unless the snapshot is older', async () => {
    await target.sql('delete from counters')
    await target.sql('insert into counters (name, n) values (?, 0)', ['hot'])
    const [first, second] = [await root.begin(), await root.begin()]
    const change = (transaction: OpenTransaction): Promise<unknown> =>
      transaction.exec('update counters set n = n + 1 where name = ?', ['hot'])
    await lockingOutboxOf(root).publish(first.tx, named('1', 'hot'))
    await change(first)
    const { published } = await waitingFor(second, named('2', 'hot'))
    await first.commit()
    await published
    if (onPostgres && isolation === 'repeatable read') {
      const error: unknown = await change(second).catch((thrown: unknown) => thrown)
      expect(connectedPortsOf('test', root.database).isConflict(error)).toBe(true)
      await second.rollback()
    } else {
      await change(second)
      await second.commit()
    }
    const [row] = await target.sql('select n from counters where name = ?', ['hot'])
    expect(await idsByNumber()).toHaveLength(Number(row?.['n']))
  })

  test('O3 with lockKeys, of two transactions that lock two keys in opposite order one gets a conflict, and nothing is lost', async () => {
    const publisher = lockingOutboxOf(root)
    const conflicts: unknown[] = []
    let arrived = 0
    let bothAreThere: () => void = () => undefined
    const meeting = new Promise<void>((resolve) => (bothAreThere = resolve))
    const runOnce = async (keys: readonly string[], name: string): Promise<void> => {
      const transaction = await root.begin()
      try {
        await publisher.publish(transaction.tx, named(`${name} ${keys[0]}`, keys[0]))
        if ((arrived += 1) === 2) bothAreThere()
        await meeting
        await publisher.publish(transaction.tx, named(`${name} ${keys[1]}`, keys[1]))
        await transaction.commit()
      } catch (error) {
        await transaction.rollback()
        conflicts.push(error)
        return runOnce(keys, name)
      }
    }
    await Promise.all([runOnce(['a', 'b'], 'first'), runOnce(['b', 'a'], 'second')])
    expect(conflicts).toHaveLength(1)
    expect(conflicts[0]).toBeInstanceOf(TransactionConflictError)
    expect((await idsByNumber()).sort()).toEqual(['first a', 'first b', 'second a', 'second b'])
  })

  test(`O3 with lockKeys calls with the same keys in any order do not deadlock: seed ${SEED}`, async () => {
    const keys = Array.from({ length: 24 }, (_, n) => `key-${n}`)
    const publisher = lockingOutboxOf(root)
    const rounds = 15
    await Promise.all(
      Array.from({ length: 5 }, async (_, client) => {
        const random = randomFrom(SEED + client)
        for (let round = 0; round < rounds; round += 1) {
          const transaction = await root.begin()
          const chosen = shuffled(keys, random).slice(0, 12)
          await publisher.publish(
            transaction.tx,
            chosen.map((key) => named(`${client} ${round} ${key}`, key)),
          )
          await transaction.commit()
        }
      }),
    )
    expect(await outbox.backlogSize()).toBe(5 * rounds * 12)
  })
})

onEachKind(target, (kind) => {
  const root = useRoot(target, kind, { max: 6 })

  test('O3 with lockKeys no transaction waits for unkeyed and scheduled messages, and without lockKeys none waits at all', async () => {
    const [first, second] = [await root.begin(), await root.begin()]
    await lockingOutboxOf(root).publish(first.tx, [named('1', 'hot'), named('2', undefined)])
    const deliverAt = new Date(Date.now() + 3_600_000)
    await lockingOutboxOf(root).publish(second.tx, [named('3', undefined), named('4', 'hot', { deliverAt })])
    await lockingOutboxOf(root).publish(second.tx, named('5', 'hot', { deliverAt }))
    await outboxOf(root).publish(second.tx, [named('6', 'hot'), named('7', 'hot')])
    await outboxOf(root).publish(second.tx, named('8', 'hot'))
    await second.commit()
    await first.commit()
    expect((await idsByNumber()).sort()).toEqual(['1', '2', '3', '6', '7', '8'])
    expect((await outbox.parked()).map(({ id }) => id).sort()).toEqual(['4', '5'])
  })

  test('O3 with lockKeys a wait that the server ends is a TransactionConflictError', async () => {
    const [first, second] = [await root.begin(), await root.begin()]
    await target.limitLockWait(second, 1000)
    await lockingOutboxOf(root).publish(first.tx, named('1', 'hot'))
    const published = lockingOutboxOf(root).publish(second.tx, named('2', 'hot'))
    await expect(published).rejects.toThrow(TransactionConflictError)
    await second.rollback()
    await first.commit()
    expect(await idsByNumber()).toEqual(['1'])
  })

  test('O3 with lockKeys the outboxes of two schemas or prefixes do not wait for each other', async () => {
    const elsewhere = onPostgres ? 'tenant' : 'tenant_'
    await target.migrate({ schema: elsewhere })
    const other = target.open(kind, { schema: elsewhere })
    await other.ready?.()
    onTestFinished(() => other.close())
    const [first, second] = [await root.begin(), await other.begin()]
    await target.limitLockWait(second, 3000)
    await lockingOutboxOf(root).publish(first.tx, [named('1', 'hot'), named('2', 'hot 2')])
    await lockingOutboxOf(other).publish(second.tx, [named('1', 'hot'), named('2', 'hot 2')])
    await lockingOutboxOf(other).publish(second.tx, named('3', 'hot'))
    await second.commit()
    await first.commit()
    expect(await outbox.backlogSize()).toBe(2)
  })

  test('O3 with lockKeys publish needs no further round trip', async () => {
    const { proxy, through } = await rootThroughProxy(target, kind)
    await publishAll(through, messagesOf('warm up', 1))
    const transaction = await through.begin()
    await outboxOf(through).publish(transaction.tx, messagesOf('warm up', 2))
    const roundTripsOf = async (publisher: ReturnType<typeof outboxOf>): Promise<readonly number[]> => {
      const roundTrips: number[] = []
      for (const count of [1, 2, 500]) {
        const messages = Array.from({ length: count }, (_, n) => messagesOf(`key-${n}`, 1)[0]!)
        proxy.countFromHere()
        await publisher.publish(transaction.tx, count === 1 ? messages[0]! : messages)
        roundTrips.push(proxy.roundTrips)
      }
      return roundTrips
    }
    // A transaction that notifies has one statement more.
    const silent = { database: through.database, notify: false }
    const without = await roundTripsOf(createOutbox(silent))
    expect(without).toEqual(Array(3).fill(without[0]))
    expect(await roundTripsOf(createOutbox({ ...silent, lockKeys: true }))).toEqual(without)
    await transaction.commit()
  })

  describe('the limit of distinct keys in one call with lockKeys', () => {
    const distinct = (count: number): NewMessage[] =>
      Array.from({ length: count }, (_, n) => ({ topic: 'test', key: `key-${n}`, payload: n }))

    test('as many keys as the limit are accepted, with any number of messages', async () => {
      const transaction = await root.begin()
      const messages = [...distinct(LIMITS.lockedKeys), ...distinct(LIMITS.lockedKeys)]
      await lockingOutboxOf(root).publish(transaction.tx, messages)
      await transaction.commit()
      expect(await outbox.backlogSize()).toBe(2 * LIMITS.lockedKeys)
    })

    test('more are refused, nothing is written, and without lockKeys they are accepted', async () => {
      const transaction = await root.begin()
      const tooMany = distinct(LIMITS.lockedKeys + 1)
      const published = lockingOutboxOf(root).publish(transaction.tx, tooMany)
      await expect(published).rejects.toThrow(InvalidMessageError)
      await outboxOf(root).publish(transaction.tx, tooMany)
      await transaction.commit()
      expect(await outbox.backlogSize()).toBe(LIMITS.lockedKeys + 1)
    })
  })
})
