import { expect, onTestFinished, test, vi } from 'vitest'
import { days } from '@txbox/inbox'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import { Proxy } from '../../support/worlds/proxy.ts'
import { onEachKind, onEachKindAndIsolation, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const DELIVERIES = 20

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: DELIVERIES + 2 })

  for (const way of WAYS) {
    test(`I9 an expired claim counts as absent while it is still in the table (${way})`, async () => {
      const subject = new InboxUnderTest(target, root)
      await subject.deliver(way, { id: 'x', correlationId: 'first' })
      await target.expire(subject.consumer)
      const [expired] = await target.claims(subject.consumer)
      expect(await subject.deliver(way, { id: 'x', correlationId: 'second' })).toMatchObject({
        status: 'processed',
      })
      const claims = await target.claims(subject.consumer)
      expect(claims).toMatchObject([{ key: 'x', correlationId: 'second' }])
      expect(claims[0]?.processedAt.getTime()).toBeGreaterThan(expired?.processedAt.getTime() ?? Infinity)
      expect(await subject.deliver(way, { id: 'x' })).toMatchObject({
        status: 'duplicate',
        firstProcessedAt: claims[0]?.processedAt,
      })
      expect(await subject.effects()).toBe(2)
    })

    test(`I9 of ${DELIVERIES} deliveries that find an expired claim, one wins (${way})`, async () => {
      const subject = new InboxUnderTest(target, root)
      await subject.deliver(way, { id: 'x' })
      await target.expire(subject.consumer)
      const outcomes = await Promise.all(
        Array.from({ length: DELIVERIES }, () =>
          way === 'run'
            ? subject.inbox.run({ id: 'x' }, subject.handle, { attempts: 10 })
            : subject.processUntilSettled({ id: 'x' }),
        ),
      )
      const processed = outcomes.filter((outcome) => outcome.status === 'processed')
      const duplicates = outcomes.filter((outcome) => outcome.status === 'duplicate')
      expect([processed.length, duplicates.length]).toEqual([1, DELIVERIES - 1])
      expect(await subject.effects()).toBe(2)
      // None of the deliveries got the expired claim as its first delivery.
      const [claim] = await target.claims(subject.consumer)
      for (const duplicate of duplicates) expect(duplicate.firstProcessedAt).toEqual(claim?.processedAt)
    })
  }

  test('I9 a claim that expires while a long transaction is open counts as absent in that transaction', async () => {
    const brief = new InboxUnderTest(target, root, { retentionMs: 400 })
    await brief.process({ id: 'x' })
    const [claim] = await target.claims(brief.consumer)
    const long = await root.begin()
    // Now the transaction has begun, and has its snapshot if it keeps one; both are before the expiry.
    expect(await brief.inbox.hasProcessed(long.tx, { id: 'x' })).toBe((await target.now()) < claim!.expiresAt)
    await target.past(claim!.expiresAt)
    expect(await brief.inbox.hasProcessed(long.tx, { id: 'x' })).toBe(false)
    expect(await brief.inbox.process(long.tx, { id: 'x' }, brief.handle)).toMatchObject({
      status: 'processed',
    })
    await long.commit()
    expect(await brief.effects()).toBe(2)
  })

  test('I9 the retention of a claim in a long transaction begins when its statement runs', async () => {
    const subject = new InboxUnderTest(target, root, { retentionMs: 60_000 })
    const long = await root.begin()
    await long.exec('select count(*) from effects')
    const begun = await target.now()
    await target.past(new Date(begun.getTime() + 50))
    await subject.inbox.process(long.tx, { id: 'x' }, subject.handle)
    await long.commit()
    const [claim] = await target.claims(subject.consumer)
    expect(claim!.processedAt.getTime()).toBeGreaterThanOrEqual(begun.getTime() + 50)
    expect(claim!.expiresAt.getTime()).toBeGreaterThanOrEqual(begun.getTime() + 60_050)
  })

  test('I9 a delivery that takes over an expired claim and rolls back leaves it to a waiting delivery', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'x' })
    await target.expire(subject.consumer)
    const winner = await root.begin()
    expect(await subject.inbox.process(winner.tx, { id: 'x' }, subject.handle)).toMatchObject({
      status: 'processed',
    })
    const others = Array.from({ length: 5 }, () => subject.processUntilSettled({ id: 'x' }))
    await target.blocked(5)
    await winner.rollback()
    const statuses = (await Promise.all(others)).map((outcome) => outcome.status)
    expect(statuses.toSorted()).toEqual(['duplicate', 'duplicate', 'duplicate', 'duplicate', 'processed'])
    expect(await subject.effects()).toBe(2)
  })

  test('I9 a batch takes over expired claims, and no others', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'b' })
    await subject.process({ id: 'd' })
    await target.expire(subject.consumer)
    await subject.process({ id: 'c' })
    const transaction = await root.begin()
    const { outcomes } = await subject.inbox.processBatch(
      transaction.tx,
      ['d', 'c', 'b', 'a', 'b'].map((id) => ({ id })),
      () => undefined,
    )
    await transaction.commit()
    expect(outcomes.map((outcome) => outcome.status)).toEqual([
      'processed',
      'duplicate',
      'processed',
      'processed',
      'duplicate',
    ])
    const again = await root.begin()
    for (const id of ['a', 'b', 'c', 'd'])
      expect(await subject.inbox.hasProcessed(again.tx, { id })).toBe(true)
    await again.rollback()
  })
})

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test('I9 a claim that is collected in the middle of a delivery counts as absent, or the collector waits for the delivery', async () => {
    const proxy = await Proxy.to(target.address())
    const throughProxy = target.open(kind, { through: proxy })
    onTestFinished(async () => {
      await throughProxy.close()
      await proxy.close()
    })
    const subject = new InboxUnderTest(target, throughProxy)
    await subject.process({ id: 'x' })
    // After its insert has found the key claimed, every query of the inbox sees a table without the claim.
    const held = proxy.hold(/select[^;]*inbox/is)
    const delivered = subject.process({ id: 'x' })
    await held.reached
    const collector = await root.begin()
    const elsewhere = new InboxUnderTest(target, root, { consumer: subject.consumer })
    const forgotten = elsewhere.inbox.forget(collector.tx, { id: 'x' })
    if (target.failedInsertLocks) await target.blocked(1)
    else expect(await forgotten).toBe(true)
    if (!target.failedInsertLocks) await collector.commit()
    held.letGo()
    const { status } = await delivered
    expect(await forgotten).toBe(true)
    if (target.failedInsertLocks) await collector.commit()
    const claims = [await subject.effects(), await subject.claimedKeys()]
    if (target.failedInsertLocks) expect([status, ...claims]).toEqual(['duplicate', 1, []])
    else expect([status, ...claims]).toEqual(['processed', 2, ['x']])
  })

  test('I9 a duplicate does not extend the retention', async () => {
    const subject = new InboxUnderTest(target, root, { retentionMs: 60_000 })
    await subject.process({ id: 'x' })
    const before = await target.claims(subject.consumer)
    // Another retention, as after a new release, does not change existing claims.
    const longer = new InboxUnderTest(target, root, { consumer: subject.consumer, retentionMs: days(30) })
    await longer.process({ id: 'x', correlationId: 'other' })
    await longer.inbox.run({ id: 'x' }, longer.handle)
    const transaction = await root.begin()
    await longer.inbox.processBatch(transaction.tx, [{ id: 'x' }, { id: 'x' }], () => undefined)
    await longer.inbox.markProcessed(transaction.tx, { id: 'x' })
    await transaction.commit()
    expect(await target.claims(subject.consumer)).toEqual(before)
  })

  test('I9 a claim is remembered for retentionMs, which is seven days by default', async () => {
    const retentions = [undefined, days(30), 1_000, 0.5 + 1_000]
    for (const retentionMs of retentions) {
      const subject = new InboxUnderTest(target, root, retentionMs === undefined ? {} : { retentionMs })
      await subject.process({ id: 'x' })
      const [claim] = await target.claims(subject.consumer)
      const remembered = claim!.expiresAt.getTime() - claim!.processedAt.getTime()
      expect(Math.abs(remembered - (retentionMs ?? days(7)))).toBeLessThanOrEqual(2)
    }
  })

  test.for([
    ['ten years ahead', days(3650)],
    ['ten years behind', -days(3650)],
  ] as const)(
    'I9 time is the clock of the database: a machine whose clock is %s sees the same',
    async ([, aheadMs]) => {
      const subject = new InboxUnderTest(target, root, { retentionMs: days(7) })
      const before = await target.now()
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + aheadMs })
      onTestFinished(() => void vi.useRealTimers())
      expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
      const duplicate = await subject.inbox.run({ id: 'x' }, subject.handle)
      expect(duplicate).toMatchObject({ status: 'duplicate' })
      if (duplicate.status !== 'duplicate') throw new Error('unreachable')
      expect(Math.abs(duplicate.firstProcessedAt.getTime() - before.getTime())).toBeLessThan(20_000)
      await target.expire(subject.consumer)
      expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    },
  )
})
