import { expect, test } from 'vitest'
import { PermanentError, type OutboxMessage } from '@txbox/consumer'
import { QueueConsumers } from '../../support/subjects/queue-consumers.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

test('C10 a dead letter that a publisher takes from a stored queue has the stored bytes, content type and headers', async () => {
  const consumers = new QueueConsumers(target, root)
  const letters: OutboxMessage[] = []
  const deadLetters = {
    publish: async (messages: readonly OutboxMessage[]) => {
      letters.push(...messages)
      return messages.map(() => ({ status: 'accepted' as const }))
    },
  }
  const sent = [
    { contentType: 'application/json', text: '{"orderId":7301234567890123457,"n":1.0}' },
    { contentType: 'application/vnd.shop.order.v1+json', text: '{ "n" : 1 }' },
    { contentType: 'text/plain; charset=utf-8', text: '\uFEFFtext' },
    { contentType: 'application/x-protobuf', text: '\b\u0096\u0001' },
    { contentType: 'application/json', text: '{"n":' },
  ]
  const encoded = sent.map(({ contentType, text }) => ({ contentType, payload: Buffer.from(text) }))
  const ids = await consumers.subject.send(
    ...encoded.map((one) => ({ ...one, type: 'order.paid', headers: { tenant: 'a' } })),
  )
  await consumers.start(
    (_tx, message) => {
      const { payload } = message
      if (payload instanceof Uint8Array) payload.fill(0)
      else if (typeof payload === 'object' && payload !== null) Object.assign(payload, { n: 'changed' })
      Object.assign(message.headers ?? {}, { tenant: 'changed' })
      Object.assign(message, { type: 'changed' })
      throw new PermanentError('no such order')
    },
    { deadLetters, deadLetterTopic: 'graveyard' },
  )
  await consumers.heard('dead-lettered', sent.length)
  const byId = new Map(letters.map((letter) => [letter.id, letter]))
  for (const [n, { contentType, payload }] of encoded.entries()) {
    const letter = byId.get(ids[n]!)
    expect({ ...letter, payload: Buffer.from(letter!.payload) }).toMatchObject({
      contentType,
      payload,
      type: 'order.paid',
      headers: { tenant: 'a' },
    })
  }
})

test('C10 N1 a dead letter that a stored queue keeps has the class of its error and the frame that threw, at once and after the last receive', async () => {
  const consumers = new QueueConsumers(target, root, { maxReceives: 2 })
  const ids = await consumers.subject.send(
    { payload: { error: 'permanent' } },
    { payload: { error: 'type' } },
  )
  await consumers.start(
    function placeOrder(_tx, { payload }) {
      if ((payload as { error: string }).error === 'type') throw new TypeError('no total')
      throw new PermanentError('no such order')
    },
    { retry: { attempts: 2, delayMs: () => 1 } },
  )
  await consumers.heard('dead-lettered', 2)
  const dead = await consumers.subject.queue.deadLetters.list()
  const errorOf = (id: string | undefined): string | undefined => dead.find((one) => one.id === id)?.error
  const frame = String.raw`at placeOrder \(.*consumer-dead-letter-body\.test\.ts:\d+:\d+\)\)$`
  expect(errorOf(ids[0])).toMatch(new RegExp(String.raw`^no such order \(PermanentError ${frame}`))
  expect(errorOf(ids[1])).toMatch(new RegExp(String.raw`^no total \(TypeError ${frame}`))
})
