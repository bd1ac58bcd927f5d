import { expect, test } from 'vitest'
import type { LocalMessage } from '../../support/subjects/local-parts.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })

/** The billing consumer publishes for the mailer. */
function pair(): LocalUnderTest {
  return new LocalUnderTest(target, root, { made: ['billing'], billed: ['mailer'] })
}

/** Handles the messages of the mailer. @returns them, in the order of their handling. */
async function mailed(subject: LocalUnderTest): Promise<readonly LocalMessage[]> {
  await subject.start('mailer', { billed: () => undefined })
  await subject.settled('mailer')
  return subject.runs.filter(({ consumer }) => consumer === 'mailer').map(({ message }) => message)
}

test('T7 a message that a handler publishes takes over the correlation id, and names the handled message as its cause', async () => {
  const subject = pair()
  const [bare, correlated] = await subject.publish({ key: 'a' }, { key: 'a', correlationId: 'conversation' })
  await subject.start('billing', async (tx) => {
    await subject.publishIn({ tx }, { type: 'billed', key: 'a' })
    await subject.publishIn({ tx }, { type: 'billed', key: 'a', correlationId: 'its own' })
  })
  await subject.settled()
  const messages = await mailed(subject)
  expect(messages.map(({ correlationId }) => correlationId)).toEqual([
    ...[bare, 'its own'],
    ...['conversation', 'its own'],
  ])
  const causes = [bare, bare, correlated, correlated]
  expect(messages.map((message) => Reflect.get(message, 'causationId') as unknown)).toEqual(causes)
  expect(messages.map(({ headers }) => headers?.['txbox-causation-id'])).toEqual(causes)
})

test('T7 a message that is published outside of the handler, or by another transaction, has no cause', async () => {
  const subject = pair()
  await subject.publish({ key: 'a' })
  await subject.start('billing', async () => void (await subject.publish({ type: 'billed', key: 'a' })))
  await subject.settled()
  await subject.publish({ type: 'billed', key: 'a' })
  for (const message of await mailed(subject)) {
    expect([message.correlationId, Reflect.get(message, 'causationId')]).toEqual([undefined, undefined])
  }
})

test('T7 in a batch there is no cause, and a correlation id only if all messages share it', async () => {
  const subject = pair()
  await subject.publish(...['same', 'same'].map((correlationId) => ({ key: 'a', correlationId })))
  const publish = (tx: never): Promise<string> => subject.publishIn({ tx }, { type: 'billed', key: 'a' })
  const consumer = await subject.startBatches('billing', (tx) => publish(tx as never))
  await subject.settled()
  await subject.publish(...['one', 'other'].map((correlationId) => ({ key: 'a', correlationId })))
  await subject.settled()
  await consumer.stop()
  const messages = await mailed(subject)
  expect(messages.map(({ correlationId }) => correlationId)).toEqual(['same', undefined])
  for (const message of messages) expect(Reflect.get(message, 'causationId')).toBeUndefined()
})

test('T7 a handler may publish the headers of its message again, but no others that begin with txbox-', async () => {
  const subscriptions = { made: ['billing'], billed: ['mailer'], mailed: ['archive'] }
  const subject = new LocalUnderTest(target, root, subscriptions)
  const [id] = await subject.publish({ key: 'a', headers: { tenant: 'north' } })
  await subject.start('billing', async (tx, { headers }) => {
    const reserved = { type: 'billed', key: 'a', headers: { ...headers, 'txbox-key': 'b' } }
    await expect(subject.publishIn({ tx }, reserved)).rejects.toThrow("the header 'txbox-key' is reserved")
    await subject.publishIn({ tx }, { type: 'billed', key: 'a', headers })
  })
  await subject.settled()
  await subject.start('mailer', {
    billed: async (tx, { headers }) =>
      void (await subject.publishIn({ tx }, { type: 'mailed', key: 'a', headers })),
  })
  await subject.settled('mailer')
  await subject.start('archive', { mailed: () => undefined })
  await subject.settled('archive')
  expect(subject.runs.map(({ message }) => message.headers)).toEqual([
    { tenant: 'north' },
    { tenant: 'north', 'txbox-causation-id': id },
    { tenant: 'north', 'txbox-causation-id': id },
  ])
})
