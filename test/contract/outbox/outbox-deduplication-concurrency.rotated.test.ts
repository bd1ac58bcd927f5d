import { expect, test } from 'vitest'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { SenderUnderTest, type Sent } from '../../support/subjects/sender-under-test.ts'
import { onEachKindAndIsolation, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const SENDERS = 20

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: SENDERS + 2 })

  test(`F6 of ${SENDERS} concurrent senders one stores, and the others answer with its id`, async () => {
    for (const sent of [{ deduplicationId: 'x' }, { payload: 'body' }]) {
      const sender = new SenderUnderTest(target, root, { contentBased: true })
      const outcomes = await Promise.all(Array.from({ length: SENDERS }, () => sender.sendUntilSettled(sent)))
      expect(new Set(outcomes.map(({ id }) => id)).size).toBe(1)
      expect(outcomes.filter(({ duplicate }) => !duplicate)).toHaveLength(1)
      expect((await outbox.backlog()).map(({ id }) => id)).toEqual([outcomes[0]!.id])
      if (!target.waitersMustRetry(isolation)) expect(sender.conflicts).toBe(0)
      await outbox.clear()
    }
  })

  test('F6 the others wait for the transaction of the first, and answer with its id when it has committed', async () => {
    const sender = new SenderUnderTest(target, root)
    const open = await root.begin()
    const first = await sender.sendIn(open, { deduplicationId: 'x' })
    let answered = 0
    const others = Array.from({ length: 4 }, async (_, n) => {
      const [outcome] = await sender.sendAllUntilSettled(
        n % 2 === 0 ? [{ deduplicationId: 'x' }] : [{ deduplicationId: 'x' }, { deduplicationId: `y${n}` }],
      )
      answered += 1
      return outcome
    })
    await target.blocked(4)
    expect(answered).toBe(0)
    await open.commit()
    const answer = { id: first.id, duplicate: true }
    expect(await Promise.all(others)).toEqual([answer, answer, answer, answer])
  })

  test('F6 if the first rolls back, one of the others stores', async () => {
    const sender = new SenderUnderTest(target, root)
    const open = await root.begin()
    await sender.sendIn(open, { deduplicationId: 'x' })
    const others = Array.from({ length: 4 }, () => sender.sendUntilSettled({ deduplicationId: 'x' }))
    await target.blocked(4)
    await open.rollback()
    const outcomes = await Promise.all(others)
    expect(outcomes.filter(({ duplicate }) => !duplicate)).toHaveLength(1)
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual([outcomes[0]!.id])
    expect(new Set(outcomes.map(({ id }) => id)).size).toBe(1)
  })

  test('F6 other senders do not see a send that was rolled back to a savepoint', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    const open = await root.begin()
    await open.savepoint('here')
    await sender.sendAllIn(open, [{ deduplicationId: 'x' }, { payload: 'body' }])
    await open.rollbackTo('here')
    const others = ['x', 'y'].map((deduplicationId) =>
      sender.sendUntilSettled({ deduplicationId, payload: 'body' }),
    )
    await open.commit()
    expect((await Promise.all(others)).map(({ duplicate }) => duplicate)).toEqual([false, false])
    expect(await sender.remembered()).toEqual(['["x"]', '["y"]'])
  })

  test('F10 a send with an id waits for one without an id that has the same body, and is then its duplicate', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    const open = await root.begin()
    const first = await sender.sendIn(open, { payload: 'body' })
    const other = sender.sendUntilSettled({ payload: 'body', deduplicationId: 'x' })
    await target.blocked(1)
    await open.commit()
    expect(await other).toEqual({ id: first.id, duplicate: true })
    expect(await sender.remembered()).toHaveLength(1)
  })

  test('F10 a send with an id stores if the one without an id that it waited for rolls back', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    const open = await root.begin()
    await sender.sendIn(open, { payload: 'body' })
    const other = sender.sendUntilSettled({ payload: 'body', deduplicationId: 'x' })
    await target.blocked(1)
    await open.rollback()
    expect(await other).toMatchObject({ duplicate: false })
    expect(await sender.remembered()).toEqual(['["x"]'])
  })

  test('F9 F10 concurrent sends of one body under two ids, and a later send without an id, store three messages', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    const open = await root.begin()
    await sender.sendIn(open, { payload: 'body', deduplicationId: 'x' })
    const withId = sender.sendUntilSettled({ payload: 'body', deduplicationId: 'y' })
    // The content of the open send is looked at until the send commits.
    await target.blocked(1)
    await open.commit()
    expect(await withId).toMatchObject({ duplicate: false })
    expect(await sender.send({ payload: 'body' })).toMatchObject({ duplicate: false })
    expect(await outbox.backlogSize()).toBe(3)
  })

  for (const contentBased of [false, true]) {
    const what = contentBased ? 'ids and bodies' : 'ids'
    test(`I13 concurrent arrays that share ${what} in different orders store each id once, and do not deadlock for ids`, async () => {
      const sender = new SenderUnderTest(target, root, { contentBased })
      const ids = Array.from({ length: 12 }, (_, n) => `x${n}`)
      const arrays = Array.from({ length: 10 }, (_, n) => {
        const turned = [...ids.slice(n), ...ids.slice(0, n)]
        return (n % 2 === 0 ? turned : turned.toReversed()).map((id, place): Sent => {
          const isIdless = contentBased && place % 3 === 0
          return isIdless ? { payload: `body of ${id}` } : { deduplicationId: id, payload: `${id} as usual` }
        })
      })
      const outcomes = await Promise.all(arrays.map((array) => sender.sendAllUntilSettled(array)))
      const first = outcomes.flat().filter(({ duplicate }) => !duplicate)
      expect(new Set(first.map(({ id }) => id)).size).toBe(first.length)
      expect(new Set(outcomes.flat().map(({ id }) => id)).size).toBe(first.length)
      expect((await outbox.backlog()).map(({ id }) => id).toSorted()).toEqual(
        first.map(({ id }) => id).toSorted(),
      )
      expect(await sender.remembered()).toHaveLength(first.length)
      if (!contentBased && !target.waitersMustRetry(isolation)) expect(sender.conflicts).toBe(0)
    })
  }
})
