import { expect, test } from 'vitest'
import { PermanentError } from '@txbox/consumer'
import { sortedIds } from '../../support/subjects/queue-under-test.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })
const CONSUMERS = ['billing', 'mailer']

/** Consumers whose handlers refuse some messages for good, until they are healed. */
class Refusing {
  readonly subject = new LocalUnderTest(target, root, CONSUMERS)
  isHealed = false

  async start(refuse: (consumer: string, id: string) => boolean): Promise<void> {
    for (const consumer of CONSUMERS) {
      await this.subject.start(consumer, (_tx, { id }) => {
        if (!this.isHealed && refuse(consumer, id)) throw new PermanentError(`refused by ${consumer}`)
      })
    }
  }

  async settled(): Promise<void> {
    for (const consumer of CONSUMERS) await this.subject.settled(consumer)
  }

  async dead(consumer: string): Promise<string[]> {
    const list = await this.subject.deadLetters.list({ consumer: this.subject.name(consumer) })
    return list.map(({ id }) => id)
  }
}

test('L5 a dead letter names its consumer, and can be listed by it', async () => {
  const refusing = new Refusing()
  const { subject } = refusing
  const [id] = await subject.publish({ key: 'a', correlationId: 'c' })
  await refusing.start(() => true)
  await refusing.settled()
  for (const consumer of CONSUMERS) {
    const [letter, ...others] = await subject.deadLetters.list({ consumer: subject.name(consumer) })
    expect(others).toEqual([])
    expect(letter).toMatchObject({
      ...{ id, key: 'a', type: 'made', correlationId: 'c', attempts: 1, consumer: subject.name(consumer) },
      error: expect.stringContaining(`refused by ${consumer}`),
    })
    expect(letter?.topic).toBeUndefined()
  }
  const all = await subject.deadLetters.list({ type: 'made', limit: 1000 })
  expect(sortedIds(all.filter((letter) => letter.id === id).map(({ consumer }) => consumer))).toEqual(
    CONSUMERS.map((consumer) => subject.name(consumer)).toSorted(),
  )
})

test('L5 a redrive by id touches only the consumers at which the message is dead, and counts from the beginning', async () => {
  const refusing = new Refusing()
  const { subject } = refusing
  const [id, next] = await subject.publish({ key: 'a' }, { key: 'a' })
  await refusing.start((consumer, refused) => consumer === 'mailer' && refused === id)
  await refusing.settled()
  refusing.isHealed = true
  const redriven = await subject.deadLetters.redrive({ ids: [id!] })
  expect(redriven).toMatchObject([{ id, consumer: subject.name('mailer') }])
  await subject.hears('handled', 2, 'mailer')
  await refusing.settled()
  expect(await subject.effectsInOrder('billing')).toEqual([id, next])
  expect(await subject.effectsInOrder('mailer')).toEqual([next, id])
  expect(subject.runsOf(id, 'mailer').map(({ deliveries }) => deliveries)).toEqual([1, 1])
  expect(await subject.deadLetters.redrive({ ids: [id!] })).toEqual([])
})

test('L5 a redrive, and a discard, of one consumer leave the other one alone', async () => {
  const refusing = new Refusing()
  const { subject } = refusing
  const ids = await subject.publish({ key: 'a' }, { key: 'b' })
  await refusing.start(() => true)
  await refusing.settled()
  refusing.isHealed = true
  await subject.deadLetters.redrive({ ids: [ids[0]!], consumer: subject.name('billing') })
  await subject.hears('handled', 1, 'billing')
  expect(await subject.effectsInOrder('billing')).toEqual([ids[0]])
  await subject.deadLetters.discard({ consumer: subject.name('mailer'), key: 'b' })
  await refusing.settled()
  expect(await refusing.dead('billing')).toEqual([ids[1]])
  expect(await refusing.dead('mailer')).toEqual([ids[0]])
  await subject.deadLetters.redrive({ consumer: subject.name('mailer') })
  await subject.hears('handled', 1, 'mailer')
  expect(await subject.effectsInOrder('mailer')).toEqual([ids[0]])
  expect(await refusing.dead('billing')).toEqual([ids[1]])
})

test('L5 a redriven message comes before those of its key that wait behind a later failure', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish({ key: 'a' }, { key: 'a' }, { key: 'a' })
  let isHealed = false
  await subject.start(
    'billing',
    (_tx, { id }) => {
      if (isHealed) return
      if (id === ids[0]) throw new PermanentError('never')
      if (id === ids[1]) throw new Error('later')
    },
    { retry: { attempts: 10, delayMs: () => 1500 } },
  )
  await subject.hears('retried')
  isHealed = true
  await subject.deadLetters.redrive({ ids: [ids[0]!] })
  await subject.settled()
  expect(await subject.effectsInOrder()).toEqual(ids)
})

test('L5 several redrives at once put each dead letter back once', async () => {
  const refusing = new Refusing()
  const { subject } = refusing
  const ids = await subject.publish(...Array.from({ length: 30 }, (_, n) => ({ key: `k${n % 7}` })))
  await refusing.start(() => true)
  await refusing.settled()
  refusing.isHealed = true
  const redriven = await Promise.all(
    Array.from({ length: 4 }, () => subject.deadLetters.redrive({ consumer: subject.name('billing') })),
  )
  expect(
    redriven
      .flat()
      .map(({ id }) => id)
      .toSorted(),
  ).toEqual(ids.toSorted())
  await subject.settled('billing')
  expect((await subject.effectsInOrder('billing')).toSorted()).toEqual(ids.toSorted())
  expect((await refusing.dead('mailer')).toSorted()).toEqual(ids.toSorted())
})

test('L5 a message with a topic that is dead at a consumer is published by the relay, and the other way round', async () => {
  const refusing = new Refusing()
  const { subject } = refusing
  const [id] = await subject.publish({ key: 'a', topic: 'orders' })
  await refusing.start((consumer) => consumer === 'billing')
  await refusing.settled()
  // No relay runs: the row for it is untouched by the death at a consumer, and by its redrive.
  const rows = async (): Promise<unknown> =>
    (await target.sql(`select count(*) as n from ${target.outboxTable} where topic = 'orders'`))[0]?.['n']
  expect(Number(await rows())).toBe(1)
  refusing.isHealed = true
  await subject.deadLetters.redrive({ ids: [id!], consumer: subject.name('billing') })
  await subject.hears('handled', 1, 'billing')
  expect(Number(await rows())).toBe(1)
  expect([await subject.effects(id, 'billing'), await subject.effects(id, 'mailer')]).toEqual([1, 1])
  await target.sql(`delete from ${target.outboxTable}`)
})

test('L5 dead letters of messages without a key do not hold back anything, and are handled after their redrive', async () => {
  const refusing = new Refusing()
  const { subject } = refusing
  const ids = await subject.publish({}, {}, {}, {})
  await refusing.start((consumer, id) => consumer === 'billing' && id !== ids[3])
  await refusing.settled()
  expect(await subject.effectsInOrder('billing')).toEqual([ids[3]])
  refusing.isHealed = true
  await subject.deadLetters.redrive({ consumer: subject.name('billing') })
  await subject.hears('handled', 4, 'billing')
  expect((await subject.effectsInOrder('billing')).toSorted()).toEqual(ids.toSorted())
})
