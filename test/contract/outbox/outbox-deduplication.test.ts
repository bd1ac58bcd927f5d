import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { SenderUnderTest } from '../../support/subjects/sender-under-test.ts'
import { onEachKindAtUsualIsolation, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const stored = async (): Promise<string[]> => (await outbox.backlog()).map(({ id }) => id).toSorted()

onEachKindAtUsualIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  test('F2 a second send of an id succeeds, answers with the id of the first message, and stores nothing', async () => {
    const sender = new SenderUnderTest(target, root)
    const first = await sender.send({ deduplicationId: 'x', payload: 'first' })
    expect(first).toEqual({ id: first.id, duplicate: false })
    for (const payload of ['first', 'other body']) {
      expect(await sender.send({ deduplicationId: 'x', payload })).toEqual({ id: first.id, duplicate: true })
    }
    const elsewhere = { deduplicationId: 'x', topic: `${sender.topic}/other`, payload: 'elsewhere' }
    expect(await sender.send(elsewhere)).toMatchObject({ duplicate: false })
    expect(await sender.remembered()).toEqual(['["x"]'])
    const rows = await target.sql(`select octet_length(payload) as bytes from ${target.outboxTable}`)
    const lengths = rows.map(({ bytes }) => Number(bytes))
    expect(lengths.toSorted((one, other) => one - other)).toEqual(
      ['"first"', '"elsewhere"'].map((text) => text.length),
    )
  })

  test('F2 a message id that the sender gives is kept, and is the answer to duplicates', async () => {
    const sender = new SenderUnderTest(target, root)
    const id = 'order 17/paid ü'
    expect(await sender.send({ id, deduplicationId: 'x' })).toEqual({ id, duplicate: false })
    expect(await sender.send({ id: 'another', deduplicationId: 'x' })).toEqual({ id, duplicate: true })
    expect(await stored()).toEqual([id])
  })

  test('F4 neither duplicates nor the delivery and deletion of the message change the window', async () => {
    const sender = new SenderUnderTest(target, root, { windowMs: 60_000 })
    const first = await sender.send({ deduplicationId: 'x' })
    const before = await sender.claims()
    expect(before[0]!.expiresAt.getTime() - before[0]!.processedAt.getTime()).toBe(60_000)
    await sender.send({ deduplicationId: 'x' })
    await sender.sendAll([{ deduplicationId: 'x' }, { deduplicationId: 'x' }])
    await outbox.clear()
    expect(await sender.send({ deduplicationId: 'x' })).toEqual({ id: first.id, duplicate: true })
    expect(await sender.claims()).toEqual(before)
  })

  test('F4 the window begins with the statement of the first send, also in a long transaction', async () => {
    const sender = new SenderUnderTest(target, root, { windowMs: 60_000 })
    const long = await root.begin()
    await long.exec('select count(*) from effects')
    const begun = await target.now()
    await target.past(new Date(begun.getTime() + 50))
    await sender.sendIn(long, { deduplicationId: 'x' })
    await long.commit()
    const [claim] = await sender.claims()
    expect(claim!.expiresAt.getTime()).toBeGreaterThanOrEqual(begun.getTime() + 60_050)
  })

  test('F5 an id is a duplicate until its window of one second has passed by the clock, and new afterwards', async () => {
    const sender = new SenderUnderTest(target, root, { windowMs: 1000 })
    const first = await sender.send({ deduplicationId: 'x' })
    const long = await root.begin()
    expect(await sender.sendIn(long, { deduplicationId: 'x' })).toEqual({ id: first.id, duplicate: true })
    const [claim] = await sender.claims()
    await target.past(claim!.expiresAt)
    // Also in a transaction that began before the end of the window.
    const second = await sender.sendIn(long, { deduplicationId: 'x' })
    await long.commit()
    expect(second).toMatchObject({ duplicate: false })
    expect(second.id).not.toBe(first.id)
    expect(await sender.send({ deduplicationId: 'x' })).toEqual({ id: second.id, duplicate: true })
    expect(await stored()).toEqual([first.id, second.id].toSorted())
  })

  test('F6 history and message roll back together, also to a savepoint', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    const failed = await root.begin()
    await sender.sendIn(failed, { deduplicationId: 'x' })
    await failed.rollback()
    expect([await sender.remembered(), await stored()]).toEqual([[], []])

    const transaction = await root.begin()
    const before = await sender.sendIn(transaction, { deduplicationId: 'before' })
    await transaction.savepoint('here')
    await sender.sendAllIn(transaction, [{ deduplicationId: 'x', payload: 1 }, { payload: 2 }])
    expect(await sender.sendIn(transaction, { deduplicationId: 'before' })).toMatchObject({ duplicate: true })
    await transaction.rollbackTo('here')
    const after = await sender.sendAllIn(transaction, [{ payload: 2 }, { deduplicationId: 'x', payload: 3 }])
    expect(after.map(({ duplicate }) => duplicate)).toEqual([false, false])
    await transaction.commit()
    expect(await stored()).toEqual([before, ...after].map(({ id }) => id).toSorted())
    expect(await sender.remembered()).toHaveLength(3)
  })

  test('F8 the content is the stored bytes of the payload: no headers, no type', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    const asText = { contentType: 'text/plain' }
    const outcomes = await sender.sendAll([
      { payload: '{"a": 1}', ...asText },
      { payload: '{"a":1}', ...asText },
      { payload: { a: 1 }, headers: { h: '1' }, type: 'x' },
      { payload: Buffer.from('{"a":1}') },
      { payload: { a: 1 }, key: 'k' },
    ])
    const [spaced, plain] = outcomes
    expect(outcomes.slice(0, 2).map(({ duplicate }) => duplicate)).toEqual([false, false])
    const answer = { id: plain!.id, duplicate: true }
    expect(outcomes.slice(2)).toEqual([answer, answer, answer])
    expect(await sender.send({ payload: '{"a": 1}', ...asText })).toEqual({ id: spaced!.id, duplicate: true })
  })

  test('F9 an id beats content: one body under two ids is two messages, and the message of the id is the answer', async () => {
    for (const contentMatch of ['content', 'id'] as const) {
      const sender = new SenderUnderTest(target, root, { contentBased: true, contentMatch })
      const one = await sender.send({ deduplicationId: '1', payload: 'body' })
      const two = await sender.send({ deduplicationId: '2', payload: 'body' })
      const content = await sender.send({ payload: 'other body' })
      expect([one, two, content].map(({ duplicate }) => duplicate)).toEqual([false, false, false])
      const both = { deduplicationId: '1', payload: 'other body' }
      expect(await sender.send(both)).toEqual({ id: one.id, duplicate: true })
      expect(await sender.remembered()).toHaveLength(3)
    }
  })

  test('F10 a send without an id and then a send of the same body with an id store one message, or two if only ids are compared', async () => {
    const matching = new SenderUnderTest(target, root, { contentBased: true })
    const first = await matching.send({ payload: 'body' })
    const answer = { id: first.id, duplicate: true }
    expect(await matching.send({ payload: 'body', deduplicationId: 'x' })).toEqual(answer)
    // The id of the duplicate is not taken by it.
    expect(await matching.send({ payload: 'other', deduplicationId: 'x' })).toMatchObject({
      duplicate: false,
    })
    expect(await matching.send({ payload: 'third', deduplicationId: sha256('"body"') })).toEqual(answer)

    const amazons = new SenderUnderTest(target, root, { contentBased: true, contentMatch: 'id' })
    const { id } = await amazons.send({ payload: 'body' })
    expect(await amazons.send({ payload: 'body', deduplicationId: 'x' })).toMatchObject({ duplicate: false })
    const spelled = { payload: 'third', deduplicationId: sha256('"body"') }
    expect(await amazons.send(spelled)).toEqual({ id, duplicate: true })
  })

  test('F10 a send with an id and then a send of the same body without an id store two messages', async () => {
    for (const contentMatch of ['content', 'id'] as const) {
      const sender = new SenderUnderTest(target, root, { contentBased: true, contentMatch })
      await sender.send({ payload: 'body', deduplicationId: 'x' })
      expect(await sender.remembered()).toEqual(['["x"]'])
      expect(await sender.send({ payload: 'body' })).toMatchObject({ duplicate: false })
    }
  })

  test('F10 F12 in an array, content and ids count as if the messages were sent one after another', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    const known = await sender.send({ payload: 'b' })
    const outcomes = await sender.sendAll([
      // A duplicate by its content, which does not keep the id, so that the next message has it.
      { deduplicationId: 'x', payload: 'b' },
      { deduplicationId: 'x', payload: 'c' },
      { deduplicationId: 'x', payload: 'd' },
      { payload: 'e' },
      { deduplicationId: 'y', payload: 'e' },
      { deduplicationId: 'z', payload: 'f' },
      { payload: 'f' },
      { payload: 'f' },
    ])
    const [, c, , e, , z, f] = outcomes.map(({ id }) => id)
    expect(outcomes.map(({ id }) => id)).toEqual([known.id, c, c, e, e, z, f, f])
    expect(outcomes.map(({ duplicate }) => duplicate)).toEqual(
      [1, 0, 1, 0, 1, 0, 0, 1].map((flag) => flag === 1),
    )
    const kept = [known, outcomes[1], outcomes[3], outcomes[5], outcomes[6]].map((each) => each!.id)
    expect(await stored()).toEqual(kept.toSorted())
    expect(await sender.send({ deduplicationId: 'x' })).toEqual({ id: c, duplicate: true })
    expect(await sender.send({ deduplicationId: 'y', payload: 'g' })).toMatchObject({ duplicate: false })
  })

  test('F11 an id counts for each topic and key; a message without a key has the scope of its topic', async () => {
    const sender = new SenderUnderTest(target, root, { scope: 'key' })
    const of = (key: string | undefined): Promise<{ id: string; duplicate: boolean }> =>
      sender.send({ key, deduplicationId: 'x' })
    const outcomes = [await of('A'), await of('B'), await of('A'), await of(undefined), await of(undefined)]
    expect(outcomes.map(({ duplicate }) => duplicate)).toEqual([false, false, true, false, true])
    expect([outcomes[2]!.id, outcomes[4]!.id]).toEqual([outcomes[0]!.id, outcomes[3]!.id])
    expect(await sender.remembered()).toEqual(['["A","x"]', '["B","x"]', '["x"]'])
    const inQueue = new SenderUnderTest(target, root)
    await inQueue.send({ key: 'A', deduplicationId: 'x' })
    expect(await inQueue.send({ key: 'B', deduplicationId: 'x' })).toMatchObject({ duplicate: true })
  })

  test('F12 the same id twice in one array: the second is a duplicate of the first; the others are stored in order', async () => {
    const sender = new SenderUnderTest(target, root)
    const known = await sender.send({ deduplicationId: 'known', key: 'k' })
    const ids = ['c', 'a', 'known', 'c', 'b', 'a', 'c']
    const outcomes = await sender.sendAll(ids.map((id) => ({ deduplicationId: id, key: 'k' })))
    expect(outcomes.map(({ duplicate }) => duplicate)).toEqual([false, false, true, true, false, true, true])
    const [c, a, , , b] = outcomes.map(({ id }) => id)
    expect(outcomes.map(({ id }) => id)).toEqual([c, a, known.id, c, b, a, c])
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual([known.id, c, a, b])
    expect(await sender.sendAll([{ deduplicationId: 'b' }, { deduplicationId: 'a' }])).toEqual([
      { id: b, duplicate: true },
      { id: a, duplicate: true },
    ])
  })
})
