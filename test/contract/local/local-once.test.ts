import { expect, test } from 'vitest'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import type { LocalHandler } from '../../support/subjects/local-parts.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { Gate } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 12 })

  test('L1 what a handler writes and the removal of its message commit together, and no claim is written', async () => {
    const subject = new LocalUnderTest(target, root)
    const gate = new Gate()
    const [id] = await subject.publish({ key: 'a' })
    await subject.start('billing', () => gate.pass())
    await gate.reached()
    expect([await subject.effects(id), await subject.waiting()]).toEqual([0, 1])
    gate.open()
    await subject.hears('handled')
    expect([await subject.effects(id), await subject.left()]).toEqual([1, 0])
    expect(await target.claims(subject.name())).toEqual([])
    expect(subject.runs.length).toBe(1)
  })

  test('L1 a handler gets the message as it was published, with its key, and without a topic', async () => {
    const subject = new LocalUnderTest(target, root)
    const [id] = await subject.publish({
      ...{ key: 'ключ', payload: { total: 3, text: 'Ünïcode 😀' }, headers: { 'x-tenant': '7' } },
      ...{ correlationId: 'conversation' },
    })
    await subject.start('billing')
    await subject.hears('handled')
    const { message, context } = subject.runs[0]!
    expect(message).toMatchObject({
      ...{ id, type: 'made', key: 'ключ', correlationId: 'conversation' },
      ...{ payload: { total: 3, text: 'Ünïcode 😀' }, headers: { 'x-tenant': '7' } },
    })
    expect(message.topic).toBeUndefined()
    expect(context).toMatchObject({ consumer: subject.name(), deliveries: 1, localRetries: 0 })
  })

  test('L1 L5 a handler that fails leaves nothing, and its message is handled again', async () => {
    const subject = new LocalUnderTest(target, root)
    const failed = new Gate()
    const [id] = await subject.publish({ key: 'a' })
    await subject.start('billing', async (_tx, _message, { deliveries }) => {
      if (deliveries === 1) throw new Error('failed')
      await failed.pass()
    })
    await failed.reached()
    expect([await subject.effects(id), await subject.left()]).toEqual([0, 1])
    failed.open()
    await subject.hears('handled')
    expect([await subject.effects(id), await subject.left()]).toEqual([1, 0])
    expect(subject.runs.map(({ deliveries }) => deliveries)).toEqual([1, 2])
  })

  test('L1 many messages with and without keys: each has one effect, and none is left', async () => {
    const subject = new LocalUnderTest(target, root)
    const sent = Array.from({ length: 200 }, (_, n) => (n % 3 === 0 ? {} : { key: `k${n % 20}` }))
    const ids = await subject.publishTogether(sent)
    await subject.start('billing')
    await subject.settled()
    const effects = await subject.effectsInOrder()
    expect(effects.toSorted()).toEqual(ids.toSorted())
    expect(subject.violations).toEqual([])
    expect(subject.heardOf('retried')).toEqual([])
  })

  test('L1 a transaction that no longer finds its message at its end is rolled back', async () => {
    const subject = new LocalUnderTest(target, root)
    const [id] = await subject.publish({ key: 'a' })
    const removing: LocalHandler = async (tx) => {
      if (subject.runs.length > 1) return
      await subject.deleteRow({ exec: (text, parameters) => target.exec(tx, text, parameters) }, id)
    }
    await subject.start('billing', removing)
    await subject.settled()
    expect(subject.runs.length).toBeGreaterThan(1)
    expect(await subject.effects(id)).toBe(1)
    expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
  })

  test('L1 a message that another transaction removes before it is locked is not handled, and the consumer goes on', async () => {
    const subject = new LocalUnderTest(target, root)
    const [removed, next] = await subject.publish({ key: 'a' }, { key: 'a' })
    const other = await root.begin()
    await subject.deleteRow(other, removed)
    await subject.start('billing')
    const [elsewhere] = await subject.publish({ key: 'b' })
    await until(
      async () => (await subject.effects(elsewhere)) === 1,
      () => subject.describe(),
    )
    await other.commit()
    await subject.settled()
    expect(subject.runsOf(removed)).toEqual([])
    expect([await subject.effects(removed), await subject.effects(next)]).toEqual([0, 1])
    expect(subject.heardOf('dead-lettered')).toEqual([])
  })

  test('L1 L9 with one handler at a time, a locked message takes no place of another one', async () => {
    const subject = new LocalUnderTest(target, root)
    const [locked] = await subject.publish({ key: 'a' })
    const other = await root.begin()
    await subject.lockRow(other, locked)
    const ids = await subject.publish({ key: 'b' }, {}, { key: 'c' })
    await subject.start('billing', () => undefined, { concurrency: 1 })
    await subject.hears('handled', 3)
    expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
    expect(subject.runsOf(locked)).toEqual([])
    await other.rollback()
    await subject.hears('handled', 4, 'billing', 5000)
    expect(subject.runsOf(locked).map(({ deliveries }) => deliveries)).toEqual([1])
    expect(subject.heardOf('retried')).toEqual([])
  })

  test('L1 a handler may publish in its own transaction: the messages are stored if it commits', async () => {
    const subject = new LocalUnderTest(target, root, { made: ['billing'], billed: ['mailer'] })
    await subject.start('billing', async (tx, { key }, { deliveries }) => {
      await subject.publishIn({ tx }, { type: 'billed', key, payload: { deliveries } })
      if (deliveries === 1) throw new Error('failed')
    })
    await subject.start('mailer', { billed: () => undefined })
    await subject.publish({ key: 'a' }, { key: 'b' })
    await subject.hears('handled', 2, 'mailer')
    await subject.settled()
    await subject.settled('mailer')
    const runs = subject.runs.filter(({ consumer }) => consumer === 'mailer')
    expect(runs.map(({ key }) => String(key)).toSorted()).toEqual(['a', 'b'])
    expect(runs.map(({ message }) => message.payload)).toEqual([{ deliveries: 2 }, { deliveries: 2 }])
  })
})
