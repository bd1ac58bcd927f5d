import { expect, onTestFinished, test } from 'vitest'
import {
  InvalidMessageError,
  NotInTransactionError,
  TransactionAbortedError,
  UnsupportedTransactionError,
  type TransactionHandle,
} from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, outboxOf, publishAll, publishIn } from '../../support/subjects/relay-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { skipBecause } from '../../support/tiers/skips.ts'
import {
  onEachKind,
  onEachKindAtUsualIsolation,
  onlyServerKnows,
  useRoot,
  useTarget,
} from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

onEachKindAtUsualIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  test('O1 a message is in the backlog when its transaction has committed, and not before', async () => {
    const transaction = await root.begin()
    const [id] = await publishIn(root, transaction, messagesOf('a', 1))
    expect(await outbox.backlogSize()).toBe(0)
    await transaction.commit()
    expect(await outbox.backlog()).toMatchObject([{ id, key: 'a' }])
  })

  test('O1 a message that was rolled back is gone, and stays gone', async () => {
    const transaction = await root.begin()
    await publishIn(root, transaction, [...messagesOf('a', 3), ...messagesOf(undefined, 3)])
    await transaction.rollback()
    expect(await outbox.backlog()).toEqual([])
  })

  test('O1 the message and the change that it reports commit, or roll back, together', async () => {
    for (const end of ['commit', 'rollback'] as const) {
      const transaction = await root.begin()
      await target.effect(transaction.tx, `${kind.name} ${isolation} ${end}`)
      await publishIn(root, transaction, messagesOf(end, 1))
      await transaction[end]()
    }
    const effects = (end: string): Promise<number> => target.effects(`${kind.name} ${isolation} ${end}`)
    expect([await effects('commit'), await effects('rollback')]).toEqual([1, 0])
    expect((await outbox.backlog()).map(({ key }) => key)).toEqual(['commit'])
  })

  test('O1 a rollback to a savepoint removes the messages published after it, and no others', async () => {
    const transaction = await root.begin()
    await publishIn(root, transaction, messagesOf('before', 1))
    await transaction.savepoint('here')
    await publishIn(root, transaction, messagesOf('after', 2))
    await transaction.rollbackTo('here')
    await publishIn(root, transaction, messagesOf('later', 1))
    await transaction.commit()
    expect((await outbox.backlog()).map(({ key }) => key ?? '').sort()).toEqual(['before', 'later'])
  })

  test('O1 a connection that dies before COMMIT leaves nothing', async (context) => {
    if (kind.endsProcessWhenBroken === true) skipBecause(context, 'process-ended')
    const transaction = await root.begin()
    await publishIn(root, transaction, messagesOf('a', 2))
    await target.kill(transaction)
    await expect(transaction.commit()).rejects.toThrow()
    expect(await outbox.backlog()).toEqual([])
  })
})

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test('O2 publish returns the id of the message, or the ids in the order of the array', async () => {
    const transaction = await root.begin()
    const publisher = outboxOf(root)
    const one = await publisher.publish(transaction.tx, { topic: 't', payload: 1, key: 'a' })
    const many = await publisher.publish(transaction.tx, messagesOf('a', 20))
    const none = await publisher.publish(transaction.tx, [])
    await transaction.commit()
    expect(none).toEqual([])
    const ids = [one, ...many].map(({ id }) => id)
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual(ids)
    expect(ids.filter((id) => !UUID_V7.test(id))).toEqual([])
    expect(new Set(ids).size).toBe(21)
    // Time-ordered, so that an inbox that remembers them inserts at the end of its index.
    const instants = ids.map((id) => id.slice(0, 13))
    expect([...instants].sort()).toEqual(instants)
  })

  test('O2 the id of the caller is kept', async () => {
    const ids = ['order-17/paid', 'ü'.repeat(255), '0190a8c0-0000-7000-8000-000000000000', ' ']
    const published = await publishAll(
      root,
      ids.map((id) => ({ topic: 't', key: 'a', payload: null, id })),
    )
    expect(published).toEqual(ids)
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual(ids)
  })

  test('O3 an array is one statement: one round trip, and numbers in the order of the array', async () => {
    const { proxy, through } = await rootThroughProxy(target, kind)
    await publishAll(through, messagesOf('warm up', 1))
    const transaction = await through.begin()
    const publisher = createOutbox({ database: through.database, notify: false })
    await publisher.publish(transaction.tx, messagesOf('warm up', 2))
    const roundTrips: number[] = []
    for (const count of [1, 1, 2, 500]) {
      proxy.countFromHere()
      const messages = messagesOf('a', count)
      await publisher.publish(transaction.tx, count === 1 ? messages[0]! : messages)
      roundTrips.push(proxy.roundTrips)
    }
    await transaction.commit()
    const { perCall = 0, perWrite = 0 } = kind.extraRoundTrips ?? {}
    expect(roundTrips).toEqual(Array(4).fill(1 + perCall + perWrite))
  })

  test('O3 ten thousand messages in one call keep their order; more are refused, and nothing is written', async () => {
    const transaction = await root.begin()
    const messages = Array.from({ length: 10_000 }, (_, n) => ({
      topic: 't',
      key: 'a',
      payload: n,
      id: `m${n}`,
    }))
    await outboxOf(root).publish(transaction.tx, messages)
    const tooMany = outboxOf(root).publish(transaction.tx, [...messages, ...messagesOf('b', 1)])
    await expect(tooMany).rejects.toThrow(InvalidMessageError)
    await transaction.commit()
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual(messages.map(({ id }) => id))
  })

  test('publish works with a database that has no connections', async () => {
    const detached = createOutbox({ database: target.detached() })
    const transaction = await root.begin()
    const { id } = await detached.publish(transaction.tx, { topic: 't', payload: {} })
    await transaction.commit()
    expect(await outbox.backlog()).toMatchObject([{ id }])
  })

  for (const [name, abort] of Object.entries(target.abortions)) {
    test(`publish is refused in a transaction that ${name} has aborted`, async () => {
      const transaction = await root.begin()
      await abort(transaction.tx).catch(() => undefined)
      const published = outboxOf(root).publish(transaction.tx, { topic: 't', payload: {} })
      // If only the server knows the state, it reports only that there is no transaction.
      await expect(published).rejects.toThrow(
        onlyServerKnows(target, kind) ? NotInTransactionError : TransactionAbortedError,
      )
      await transaction.rollback()
      expect(await outbox.backlog()).toEqual([])
    })
  }
})

for (const kind of target.kinds.filter(({ pipelined }) => pipelined)) {
  test(`O3 publishes that do not wait for one another keep the order of the calls: ${kind.name}`, async () => {
    const root = target.open(kind)
    await root.ready?.()
    onTestFinished(() => root.close())
    const transaction = await root.begin()
    const publisher = outboxOf(root)
    const stored = await Promise.all(
      messagesOf('a', 20).map((message) => publisher.publish(transaction.tx, message)),
    )
    await transaction.commit()
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual(stored.map(({ id }) => id))
  })

  test(`O3 so do publishes of which some need several statements: ${kind.name}`, async () => {
    const root = target.open(kind)
    await root.ready?.()
    onTestFinished(() => root.close())
    const transaction = await root.begin()
    const notify = target.engine === 'postgres'
    const [plain, notifying] = [outboxOf(root), createOutbox({ database: root.database, notify })]
    const deliverAt = new Date(Date.now() + 3_600_000)
    const stored = await Promise.all(
      messagesOf('a', 20).map((message, n) =>
        n % 2 === 0
          ? notifying.publish(transaction.tx, [{ ...message, deliverAt }, message])
          : plain.publish(transaction.tx, [message]),
      ),
    )
    await transaction.commit()
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual(stored.map((ids) => ids.at(-1)!.id))
  })
}

for (const name of target.strayHandles) {
  for (const [what, messages] of [
    ['a message', messagesOf('a', 1)[0]!],
    ['an array', messagesOf('a', 2)],
  ] as const) {
    test(`O1 nothing is written outside a transaction: ${what} through ${name}`, async () => {
      const publisher = createOutbox({ database: target.detached() })
      await target.withStrayHandle(name, async (handle) => {
        const published = publisher.publish(handle as unknown as TransactionHandle, messages)
        await expect(published).rejects.toThrow(NotInTransactionError)
      })
      expect(await outbox.backlog()).toEqual([])
    })
  }
}

test('publish refuses a value that is not a transaction of a known library', async () => {
  const publisher = createOutbox({ database: target.detached() })
  for (const handle of [{}, { query: 1 }, new Map(), [], undefined, null, 'tx', 1]) {
    const published = publisher.publish(handle as unknown as TransactionHandle, { topic: 't', payload: {} })
    await expect(published, JSON.stringify(handle)).rejects.toThrow(UnsupportedTransactionError)
  }
})
