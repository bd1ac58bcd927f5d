import { expect, test } from 'vitest'
import { createDeadLetters } from '@txbox/relay'
import { Broker, rejected } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, publishIn, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const PARKED = target.engine === 'postgres' ? 'txbox.parked' : 'txbox_parked'

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('O12 neither redriving nor discarding waits for a producer whose transaction is open', async () => {
    const scheduled = (n: number) => ({ topic: 'test', key: `k${n}`, payload: n, deliverAt: new Date(0) })
    const ids = await publishAll(root, messagesOf(undefined, 4))
    const publisher = new Broker().publisher({
      respond: (call) => call.messages.map(() => rejected({ retryable: false })),
    })
    const open = await root.begin()
    await publishIn(root, open, [scheduled(1), scheduled(2)])
    const subject = await RelayUnderTest.started(root, publisher)
    await subject.hears('dead-lettered', 4)
    await subject.relay.stop()
    await publishIn(root, open, [scheduled(3)])
    const dead = createDeadLetters({ database: root.database })
    const begun = performance.now()
    expect((await dead.redrive({ ids: ids.slice(0, 1) })).length).toBe(1)
    expect((await dead.redrive({ topic: 'test' })).length).toBe(3)
    const again = await RelayUnderTest.started(root, publisher)
    await again.hears('dead-lettered', 4)
    await again.relay.stop()
    expect((await dead.discard({ topic: 'test' })).length).toBe(4)
    // A statement that waits for a lock gives up after 50 seconds, and is repeated.
    expect(performance.now() - begun).toBeLessThan(20_000)
    await open.commit()
    expect((await outbox.parked()).length).toBe(3)
  })

  /** Three dead letters, and no running relay. */
  async function threeDead(key: string | undefined): Promise<readonly string[]> {
    const ids = await publishAll(root, messagesOf(key, 3))
    const publisher = new Broker().publisher({
      respond: (call) => call.messages.map(() => rejected({ retryable: false })),
    })
    const subject = await RelayUnderTest.started(root, publisher)
    await subject.hears('dead-lettered', 3)
    await subject.relay.stop()
    return ids
  }

  test('O3 O5 a redrive while the head of the key is being discarded: the other messages continue, in order', async () => {
    const ids = await threeDead('k')
    const discarding = await root.begin()
    await discarding.exec(`delete from ${PARKED} where id = ?`, [ids[0]])
    const redriven = createDeadLetters({ database: root.database }).redrive({ topic: 'test' })
    await target.blocked(1)
    await discarding.commit()
    expect((await redriven).map(({ id }) => id)).toEqual(ids.slice(1))

    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher())
    await broker.received(2)
    await outbox.settled()
    expect(broker.ids()).toEqual(ids.slice(1))
  })

  test('O1 O5 a message that is redriven while it is being discarded stays', async () => {
    const ids = await threeDead(undefined)
    const redriving = await root.begin()
    await redriving.exec(`update ${PARKED} set due_at = dead_at, dead_at = null where id = ?`, [ids[1]])
    const discarded = createDeadLetters({ database: root.database }).discard({ topic: 'test' })
    await target.blocked(1)
    await redriving.commit()
    expect((await discarded).map(({ id }) => id)).toEqual([ids[0], ids[2]])

    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher())
    await broker.received(1)
    await outbox.settled()
    expect(broker.ids()).toEqual([ids[1]])
  })
})
