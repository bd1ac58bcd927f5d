import { expect, onTestFinished, test } from 'vitest'
import type { InboxOutcome } from '@txbox/inbox'
import { InboxUnderTest, type Handler } from '../../support/subjects/inbox-under-test.ts'
import { Proxy } from '../../support/worlds/proxy.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import {
  onEachKind,
  onEachKindAndIsolation,
  useRoot,
  useTarget,
  type ExtraRoundTrips,
} from '../../support/engines/target.ts'

const target = useTarget()
const DELIVERIES = 20

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: DELIVERIES + 2 })

  test(`I4 of ${DELIVERIES} concurrent deliveries exactly one takes effect (process)`, async () => {
    const subject = new InboxUnderTest(target, root)
    const outcomes = await Promise.all(
      Array.from({ length: DELIVERIES }, () => subject.processUntilSettled({ id: 'x' })),
    )
    expect(statuses(outcomes)).toEqual({ processed: 1, duplicate: DELIVERIES - 1 })
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
    // With a snapshot for each statement, no delivery has to be repeated.
    if (!target.waitersMustRetry(isolation)) expect(subject.conflicts).toBe(0)
  })

  test(`I4 of ${DELIVERIES} concurrent deliveries exactly one takes effect (run)`, async () => {
    const subject = new InboxUnderTest(target, root)
    const outcomes = await Promise.all(
      Array.from({ length: DELIVERIES }, () => subject.inbox.run({ id: 'x' }, subject.handle)),
    )
    expect(statuses(outcomes)).toEqual({ processed: 1, duplicate: DELIVERIES - 1 })
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
  })

  test('I4 the other deliveries wait, and none of them gets duplicate before the winner has committed', async () => {
    const subject = new InboxUnderTest(target, root)
    const winner = await root.begin()
    await subject.inbox.process(winner.tx, { id: 'x' }, subject.handle)
    let answered = 0
    const others = Array.from({ length: 5 }, async () => {
      const outcome = await subject.processUntilSettled({ id: 'x' })
      answered += 1
      return outcome
    })
    await target.blocked(5)
    expect(answered).toBe(0)
    await winner.commit()
    expect(statuses(await Promise.all(others))).toEqual({ duplicate: 5 })
    expect([subject.calls, await subject.effects()]).toEqual([1, 1])
  })

  test('I4 a delivery that waits inside run gets duplicate when the winner has committed', async () => {
    const subject = new InboxUnderTest(target, root)
    const winner = await root.begin()
    await subject.inbox.process(winner.tx, { id: 'x' }, subject.handle)
    const others = Array.from({ length: 5 }, () => subject.inbox.run({ id: 'x' }, subject.handle))
    await target.blocked(5)
    await winner.commit()
    expect(statuses(await Promise.all(others))).toEqual({ duplicate: 5 })
    expect([subject.calls, await subject.effects()]).toEqual([1, 1])
  })

  test('I4 if the winner rolls back, one of the waiting deliveries takes over', async () => {
    const subject = new InboxUnderTest(target, root)
    const winner = await root.begin()
    await subject.inbox.process(winner.tx, { id: 'x' }, subject.handle)
    const others = Array.from({ length: 5 }, () => subject.processUntilSettled({ id: 'x' }))
    await target.blocked(5)
    await winner.rollback()
    expect(statuses(await Promise.all(others))).toEqual({ processed: 1, duplicate: 4 })
    expect([subject.calls, await subject.effects()]).toEqual([2, 1])
  })

  test('I4 if several winners fail in a row, a waiting delivery takes over each time, and one effect is left', async () => {
    const subject = new InboxUnderTest(target, root)
    const failures = 6
    const failing: Handler<string> = async (tx, message, context) => {
      await subject.handle(tx, message, context)
      if (subject.calls <= failures) throw new Error('rolled back')
      return 'handled'
    }
    const settled = await Promise.allSettled(
      Array.from({ length: DELIVERIES }, () => subject.processUntilSettled({ id: 'x' }, failing)),
    )
    const outcomes = settled.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    expect(statuses(outcomes)).toEqual({ processed: 1, duplicate: DELIVERIES - 1 - failures })
    expect([subject.calls, await subject.effects(), await subject.claimedKeys()]).toEqual([
      failures + 1,
      1,
      ['x'],
    ])
  })

  test('I4 deliveries of other messages and to other consumers do not wait', async () => {
    const subject = new InboxUnderTest(target, root)
    const other = new InboxUnderTest(target, root)
    const open = await root.begin()
    await subject.inbox.process(open.tx, { id: 'x' }, subject.handle)
    expect(await subject.process({ id: 'y' })).toMatchObject({ status: 'processed' })
    expect(await other.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    await open.commit()
  })

  test('I3 many keys, each delivered twice at the same instant, have one effect each', async () => {
    const subject = new InboxUnderTest(target, root)
    const ids = Array.from({ length: 50 }, (_, n) => `m${n}`)
    const outcomes = await Promise.all([...ids, ...ids].map((id) => subject.processUntilSettled({ id })))
    expect(statuses(outcomes)).toEqual({ processed: ids.length, duplicate: ids.length })
    expect(await subject.effects()).toBe(ids.length)
  })
})

onEachKind(target, (kind) => {
  test('I3 one statement decides: a new claim costs one round trip, and nothing is read before it', async () => {
    const { proxy, through: root } = await rootThroughProxy(target, kind)
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'warm up' })
    const transaction = await root.begin()
    const roundTrips: number[] = []
    for (const id of ['x', 'y', 'warm up', 'x']) {
      proxy.countFromHere()
      await subject.inbox.process(transaction.tx, { id }, () => undefined)
      roundTrips.push(proxy.roundTrips)
    }
    await transaction.commit()
    const { perCall, perWrite = 0, afterHandler } = kind.extraRoundTrips ?? NO_EXTRA
    const fresh = target.costs.fresh + perCall + perWrite + afterHandler
    const duplicate = target.costs.duplicate + perCall
    expect(roundTrips).toEqual([fresh, fresh, duplicate, duplicate])
  })

  test('run sends BEGIN and the claim together if the handle supports it', async () => {
    const proxy = await Proxy.to(target.address())
    const root = target.open(kind, { through: proxy, max: 1 })
    await root.ready?.()
    onTestFinished(async () => {
      await root.close()
      await proxy.close()
    })
    const subject = new InboxUnderTest(target, root)
    await subject.inbox.run({ id: 'warm up' }, subject.handle)
    proxy.countFromHere()
    await subject.inbox.run({ id: 'x' }, () => undefined)
    // txbox does not check that a transaction is open if it has opened the transaction itself.
    const { perWrite = 0, afterHandler } = kind.extraRoundTrips ?? NO_EXTRA
    expect(proxy.roundTrips).toBe(target.costs.fresh + perWrite + afterHandler + (kind.joinsBegin ? 1 : 2))
  })
})

const NO_EXTRA: ExtraRoundTrips = { perCall: 0, afterHandler: 0 }

function statuses(outcomes: readonly InboxOutcome[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of outcomes) counts[status] = (counts[status] ?? 0) + 1
  return counts
}
