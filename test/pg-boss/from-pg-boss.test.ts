import { expect, test } from 'vitest'
import { InvalidMessageError, fromPgBoss, pgBossPublisher } from '@txbox/pg-boss'
import { outboxMessage, publish } from '../support/subjects/publishing.ts'
import { usePgBoss } from './pg-boss-under-test.ts'

const subject = usePgBoss()
const ENVELOPE = { id: 'm', contentType: 'application/json', time: '2026-03-04T05:06:07.890Z', headers: {} }

async function received(message: Parameters<typeof outboxMessage>[0]) {
  await publish(pgBossPublisher({ boss: subject.boss }), [outboxMessage(message)])
  const [job] = await subject.take(message.topic)
  return fromPgBoss(job!)
}

test('publishing and receiving a message keeps all of its fields', async () => {
  const topic = await subject.queue()
  const fields = { id: 'order 1', type: 'order.paid', correlationId: 'c', headers: { 'a B': 'é', '': '' } }
  expect(await received({ topic, key: 'k', ...fields, payload: Buffer.from('{"total":1.5}') })).toEqual({
    ...fields,
    time: new Date('2026-03-04T05:06:07.890Z'),
    payload: { total: 1.5 },
  })
})

test.for([
  ['text/plain', '\uFEFFgrüße', '\uFEFFgrüße'],
  ['application/octet-stream', 'abc', new Uint8Array([97, 98, 99])],
  ['application/json', 'null', null],
] as const)('a payload of %s is decoded', async ([contentType, text, expected]) => {
  const topic = await subject.queue()
  expect((await received({ topic, contentType, payload: Buffer.from(text) })).payload).toEqual(expected)
})

test('JSON that is none is refused when it is read', async () => {
  const topic = await subject.queue()
  await expect(received({ topic, payload: Buffer.from('{') })).rejects.toThrow(InvalidMessageError)
  await expect(received({ topic, payload: Buffer.from('{}'), contentEncoding: 'gzip' })).rejects.toThrow(
    /content encoding 'gzip'/,
  )
})

test('any other job is a message with its data as the payload', () => {
  const createdOn = new Date()
  expect(fromPgBoss({ id: 'j', data: { total: 7 }, createdOn })).toEqual({
    ...{ id: 'j', headers: {}, time: createdOn },
    payload: { total: 7 },
  })
  expect(fromPgBoss({ id: 'j', data: null, sourceRootId: 'first' }).id).toBe('first')
  const others = [
    { ...ENVELOPE, payload: 1, more: 2 },
    { ...ENVELOPE, headers: { a: 1 }, payload: 1 },
    { ...ENVELOPE, headers: null, payload: 1 },
    { ...ENVELOPE, time: 'noon', payload: 1 },
    { ...ENVELOPE, type: 7, payload: 1 },
    { ...ENVELOPE, payload: 1, payloadBase64: '' },
    { ...ENVELOPE, payloadBase64: 7 },
    ENVELOPE,
    [ENVELOPE],
  ]
  for (const data of others) expect(fromPgBoss({ id: 'j', data })).toMatchObject({ id: 'j', payload: data })
  expect(fromPgBoss({ id: 'j', data: { ...ENVELOPE, payload: 1 } })).toMatchObject({ id: 'm', payload: 1 })
})

test.for([undefined, null, 'job', {}, { id: '' }, { id: 7 }])('%o is no job', (job) => {
  expect(() => fromPgBoss(job as never)).toThrow(InvalidMessageError)
})

test('a job that went to a dead letter queue is the same message', async () => {
  const deadLetter = await subject.queue()
  const topic = await subject.queue({ deadLetter, retryLimit: 0 })
  const message = outboxMessage({ topic, id: 'order 1' })
  await publish(pgBossPublisher({ boss: subject.boss }), [message])
  const [job] = await subject.take(topic)
  await subject.boss.fail(topic, job!.id)
  const [dead] = await subject.take(deadLetter)
  expect(dead!.id).not.toBe(job!.id)
  expect(fromPgBoss(dead!).id).toBe('order 1')
})
