import { expect, test } from 'vitest'
import { ReceiptExpiredError } from '@txbox/core'
import { createDeadLetters } from '@txbox/relay'
import { QueueUnderTest, idsOf, sortedIds } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

for (const key of [undefined, 'a']) {
  const having = key === undefined ? 'without a key' : 'with a key'
  const sent = key === undefined ? {} : { key }

  test(`Q10 the receive after maxReceives receives makes a dead letter with the last error, and the key goes on: ${having}`, async () => {
    const subject = new QueueUnderTest(target, root, { maxReceives: 3 })
    const [id, next] = await subject.send({ ...sent, type: 'placed', correlationId: 'c' }, { key: 'a' })
    for (let n = 1; n <= 3; n += 1) {
      const received = (await subject.receive()).find(({ message }) => message.id === id)!
      expect(received.receives).toBe(n)
      await subject.queue.release(received, { error: new Error(`attempt ${n}`) })
    }
    await subject.expire()
    expect(idsOf(await subject.receive())).toEqual([next])
    const letters = await subject.queue.deadLetters.list()
    expect(letters).toMatchObject([{ id, topic: subject.queue.name, ...sent, type: 'placed', attempts: 3 }])
    expect(letters[0]).toMatchObject({
      error: expect.stringMatching(/^attempt 3 \(Error at /),
      correlationId: 'c',
    })
  })

  test(`Q10 a message whose lease runs out again and again becomes a dead letter as well: ${having}`, async () => {
    const subject = new QueueUnderTest(target, root, { maxReceives: 2 })
    const [id] = await subject.send(sent)
    for (let n = 1; n <= 2; n += 1) {
      expect(await subject.receive()).toMatchObject([{ message: { id }, receives: n }])
      await subject.expire()
    }
    expect(await subject.receive()).toEqual([])
    expect(await subject.queue.deadLetters.list()).toMatchObject([{ id, attempts: 2 }])
  })

  test(`Q12 bury makes a dead letter at once, with its reason, and the key goes on: ${having}`, async () => {
    const subject = new QueueUnderTest(target, root)
    const [id, next] = await subject.send(sent, sent)
    const received = (await subject.receive()).find(({ message }) => message.id === id)!
    await subject.queue.bury(received, { error: new Error('never', { cause: 'postgres://u:secret@h/d' }) })
    await subject.expire()
    expect(idsOf(await subject.receive())).toEqual([next])
    const [letter] = await subject.queue.deadLetters.list()
    expect(letter).toMatchObject({ id, attempts: 1 })
    expect(letter!.error).toMatch(/^never/)
    expect(letter!.error).not.toContain('secret')
    await expect(subject.queue.bury(received, { error: 'x' })).rejects.toThrow(ReceiptExpiredError)
  })

  test(`Q12 a dead letter is redriven once, however often redrive is called, before later messages of its key: ${having}`, async () => {
    const subject = new QueueUnderTest(target, root)
    const [id, later] = await subject.send(sent, sent)
    for (const each of await subject.receive()) {
      if (each.message.id === id) await subject.queue.bury(each, { error: 'x' })
      else await subject.queue.release(each)
    }
    const redriven = await Promise.all(
      Array.from({ length: 4 }, () => subject.twin(root).deadLetters.redrive({ ids: [id!] })),
    )
    expect(redriven.flat().map((letter) => letter.id)).toEqual([id])
    expect(await subject.queue.deadLetters.redrive({ ids: [id!] })).toEqual([])
    expect(await subject.queue.deadLetters.list()).toEqual([])
    const again = await subject.receive()
    if (key === undefined) expect(idsOf(again).toSorted()).toEqual(sortedIds([id, later]))
    else expect(idsOf(again)).toEqual([id])
    expect(again.find(({ message }) => message.id === id)!.receives).toBe(1)
    for (const each of again) await subject.queue.delete(each)
    expect(await subject.drain()).toEqual(key === undefined ? [] : [later])
  })

  test(`Q12 a dead letter is discarded: ${having}`, async () => {
    const subject = new QueueUnderTest(target, root)
    const [id, other] = await subject.send(sent, { key: 'other' })
    for (const each of await subject.receive()) await subject.queue.bury(each, { error: 'x' })
    expect(await subject.queue.deadLetters.discard({ ids: [id!] })).toMatchObject([{ id }])
    expect(await subject.queue.deadLetters.list()).toMatchObject([{ id: other }])
  })
}

test('Q10 a message whose lease ran out twice is handed out in an answer of its own', async () => {
  const subject = new QueueUnderTest(target, root)
  const [poison] = await subject.send({ key: 'a' })
  for (let n = 0; n < 2; n += 1) {
    expect(idsOf(await subject.receive())).toEqual([poison])
    await subject.expire()
  }
  const others = await subject.send({ key: 'b' }, {}, { key: 'c' }, {})
  const answers: string[][] = []
  for (let n = 0; n < 10; n += 1) {
    const answer = idsOf(await subject.receive({ limit: 1000 }))
    if (answer.length > 0) answers.push(answer)
  }
  expect(answers.flat().toSorted()).toEqual(sortedIds([poison, ...others]))
  expect(answers.find((answer) => answer.includes(poison!))).toEqual([poison])
})

test('Q10 a message that kills its consumer again and again becomes a dead letter, and no other message does', async () => {
  const subject = new QueueUnderTest(target, root, { maxReceives: 5 })
  const messages = Array.from({ length: 8 }, (_, n) => (n % 2 === 0 ? {} : { key: `k${n}` }))
  const ids = await subject.sendTogether(messages)
  const poison = ids[3]
  const handled: string[] = []
  for (let n = 0; n < 30; n += 1) {
    const received = await subject.receive({ limit: 1000 })
    // The whole process ends when the poison is handled, and with it all that it holds.
    if (idsOf(received).includes(poison!)) {
      await subject.expire()
      continue
    }
    for (const each of received) {
      await subject.queue.delete(each)
      handled.push(each.message.id)
    }
  }
  expect((await subject.queue.deadLetters.list()).map(({ id }) => id)).toEqual([poison])
  expect(handled.toSorted()).toEqual(ids.filter((id) => id !== poison).toSorted())
})

test('Q12 dead letters of one queue appear neither in another queue nor in the outbox', async () => {
  const [one, other] = [new QueueUnderTest(target, root), new QueueUnderTest(target, root)]
  for (const subject of [one, other]) {
    await subject.send({ key: 'a', id: `of ${subject.queue.name}` })
    await subject.queue.bury(await subject.receiveOne(), { error: 'x' })
  }
  expect(await one.queue.deadLetters.list()).toMatchObject([{ id: `of ${one.queue.name}` }])
  expect(await one.queue.deadLetters.list({ topic: other.queue.name })).toEqual([])
  expect(await one.queue.deadLetters.redrive({ topic: other.queue.name })).toEqual([])
  expect(await one.queue.deadLetters.discard({ key: 'a' })).toHaveLength(1)
  expect(await other.queue.deadLetters.list()).toHaveLength(1)
  expect(await createDeadLetters({ database: root.database }).list()).toEqual([])
})

test('Q12 purge removes what is not in flight, scheduled messages too, and leaves dead letters', async () => {
  const subject = new QueueUnderTest(target, root)
  const [first, dead] = await subject.send({ key: 'a' }, {}, { key: 'a' })
  const received = await subject.receive()
  const held = received.find(({ message }) => message.id === first)!
  await subject.queue.bury(
    received.find(({ message }) => message.id === dead)!,
    { error: 'x' },
  )
  await subject.send({ key: 'b' }, { deliverAt: new Date('2999-01-01') }, {}, { key: 'a' })
  await subject.sendTogether(Array.from({ length: 2500 }, (_, n) => ({ key: `k${n % 5}` })))
  const elsewhere = new QueueUnderTest(target, root)
  await elsewhere.send({})
  expect(await subject.queue.purge()).toEqual({ removed: 2505 })
  expect(await subject.size()).toBe(1)
  expect(await elsewhere.size()).toBe(1)
  const [id] = await subject.send({ key: 'a' })
  expect(await subject.receive()).toEqual([])
  await subject.queue.delete(held)
  expect(await subject.drain()).toEqual([id])
  expect(await subject.queue.deadLetters.list()).toMatchObject([{ id: dead }])
})

test('Q12 purge forgets the deduplication ids of this queue, and of no other', async () => {
  const [one, other] = [{ deduplication: {} }, { deduplication: {} }].map(
    (options) => new QueueUnderTest(target, root, options),
  ) as [QueueUnderTest, QueueUnderTest]
  for (const subject of [one, other]) await subject.send({ deduplicationId: 'x' })
  await one.queue.purge()
  expect(await target.claims(`@queue/${one.queue.name}`)).toEqual([])
  const transaction = await root.begin()
  expect(await one.sendIn(transaction, { deduplicationId: 'x' })).toMatchObject({ duplicate: false })
  expect(await other.sendIn(transaction, { deduplicationId: 'x' })).toMatchObject({ duplicate: true })
  await transaction.commit()
})
