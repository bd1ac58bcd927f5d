import { expect, test } from 'vitest'
import { InvalidMessageError, NotInTransactionError, UnsupportedTransactionError } from '@txbox/core'
import { createQueue } from '@txbox/queue'
import { QueueUnderTest, idsOf } from '../../support/subjects/queue-under-test.ts'
import { onEachKindAtUsualIsolation, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

onEachKindAtUsualIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  test('Q1 a message can be received when its transaction has committed, and not before', async () => {
    const subject = new QueueUnderTest(target, root)
    const transaction = await root.begin()
    const { id, duplicate } = await subject.sendIn(transaction, { key: 'a' })
    expect(duplicate).toBe(false)
    expect(await subject.receive()).toEqual([])
    await transaction.commit()
    expect(idsOf(await subject.receive())).toEqual([id])
  })

  test('Q1 a message that was rolled back is never received, also back to a savepoint', async () => {
    const subject = new QueueUnderTest(target, root)
    const transaction = await root.begin()
    const { id } = await subject.sendIn(transaction, { key: 'a' })
    await transaction.savepoint('here')
    await subject.sendIn(transaction, { key: 'a' })
    await subject.sendIn(transaction, {})
    await transaction.rollbackTo('here')
    await transaction.commit()
    const second = await root.begin()
    await subject.sendIn(second, { key: 'a' })
    await second.rollback()
    expect(await subject.size()).toBe(1)
    expect(await subject.drain()).toEqual([id])
  })

  test('Q1 a message is sent by a database without connections, too', async () => {
    const subject = new QueueUnderTest(target, root)
    const sender = createQueue({ database: target.detached(), name: subject.queue.name })
    expect('receive' in sender).toBe(false)
    const transaction = await root.begin()
    const sent = await sender.send(transaction.tx, [{ payload: 1 }, { payload: 2, key: 'a' }])
    await transaction.commit()
    expect((await subject.drain()).toSorted()).toEqual(sent.map(({ id }) => id).toSorted())
  })

  test('Q1 sends with one deduplication id are one message, by claims of the queue, in its transaction', async () => {
    const subject = new QueueUnderTest(target, root, { deduplication: {} })
    const transaction = await root.begin()
    await subject.sendIn(transaction, { deduplicationId: 'x' })
    await transaction.rollback()
    const [first] = await subject.send({ deduplicationId: 'x', key: 'a' })
    const second = await root.begin()
    expect(await subject.sendIn(second, { deduplicationId: 'x' })).toEqual({ id: first, duplicate: true })
    await second.commit()
    const [received, ...others] = await subject.receive()
    expect(others).toEqual([])
    expect(received).toMatchObject({ deduplicationId: 'x', message: { id: first } })
    expect(received?.message.headers).toEqual({ 'deduplication-id': 'x' })
    const claims = await target.claims(`@queue/${subject.queue.name}`)
    expect(claims.map(({ key }) => JSON.parse(key) as unknown)).toEqual([[subject.queue.name, 'x']])
    await expect(subject.send({})).rejects.toThrow(/^send: the message has no 'deduplicationId'/)
  })
})

const root = useRoot(target, target.kinds[0]!)

test('Q1 payloads are received to the byte, with all fields of the message', async () => {
  const subject = new QueueUnderTest(target, root)
  const bytes = Uint8Array.from({ length: 256 }, (_, n) => n)
  const fields = {
    id: 'id ü 🙂',
    key: 'key ü',
    type: 'type',
    correlationId: 'c-1',
    headers: { 'x-é': '🙂', __proto__x: '' },
  }
  for (const [payload, contentType] of [
    [{ text: 'ü🙂\u2028', n: 1.5, nested: [null, true] }, undefined],
    [bytes, undefined],
    [bytes, 'application/json'],
    ['text ü🙂', 'text/plain'],
    ['', 'text/plain; charset=utf-8'],
    [null, undefined],
  ] as const) {
    const before = await target.now()
    await subject.send({ ...fields, payload, ...(contentType === undefined ? {} : { contentType }) })
    const received = await subject.receiveOne()
    const { key, ...identity } = fields
    expect(received.key).toBe(key)
    expect(received.message).toMatchObject(identity)
    expect(received.receives).toBe(1)
    expect('deduplicationId' in received).toBe(false)
    const actual = received.message.payload
    expect(actual instanceof Uint8Array ? [...actual] : actual).toEqual(
      payload instanceof Uint8Array ? [...payload] : payload,
    )
    expect(received.undecodable).toEqual(
      contentType === 'application/json' ? expect.any(InvalidMessageError) : undefined,
    )
    const { time } = received.message
    expect(time).toBeInstanceOf(Date)
    expect((time as Date).getTime()).toBeGreaterThanOrEqual(before.getTime() - 1)
    expect((time as Date).getTime()).toBeLessThanOrEqual((await target.now()).getTime())
    await subject.queue.delete(received)
  }
})

test('Q1 a message that cannot be stored is refused, and no message of the call is stored', async () => {
  const subject = new QueueUnderTest(target, root)
  const transaction = await root.begin()
  const hostile: readonly [unknown, RegExp][] = [
    [{ payload: undefined }, /^send: the payload must be a value that JSON can express/],
    [{ payload: 1, topic: 'other' }, /^send: a message has no field 'topic'/],
    [{ payload: 1, delayMs: 5 }, /^send: a message has no field 'delayMs'/],
    [{ payload: 1, key: '' }, /^send: 'key' must be/],
    [{ payload: 1, headers: { 'TXBOX-id': 'a' } }, /^send: the header 'TXBOX-id' is reserved/],
    [{ payload: 1, deduplicationId: 'x' }, /^send: a message has a 'deduplicationId', but the queue/],
    [undefined, /^send: the message must be an object/],
  ]
  for (const [message, text] of hostile) {
    const sending = subject.queue.send(transaction.tx, [{ payload: 1 }, message as never])
    await expect(sending).rejects.toThrow(InvalidMessageError)
    await expect(sending).rejects.toThrow(text)
  }
  expect(await subject.queue.send(transaction.tx, [])).toEqual([])
  await transaction.commit()
  expect(await subject.size()).toBe(0)
  await expect(subject.queue.send(root.db as never, { payload: 1 })).rejects.toThrow(NotInTransactionError)
  await expect(subject.queue.send({} as never, { payload: 1 })).rejects.toThrow(UnsupportedTransactionError)
  expect(await subject.size()).toBe(0)
})
