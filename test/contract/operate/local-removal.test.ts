import { describe, expect, test } from 'vitest'
import type { RemovalOptions, RemovalOutcome } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { useOperatedConsumers } from '../../support/subjects/operated-consumers.ts'

const target = useTarget()
const consumers = useOperatedConsumers(target)
const root = useRoot(target, mainKind(target))

function remove(consumer: string, options: Partial<RemovalOptions> = {}): Promise<RemovalOutcome> {
  const how = { type: undefined, discard: false, by: 'me', waitMs: 300, ...options }
  return connectedPortsOf('test', root.database).removals().remove(consumer, how)
}

const none = { count: 0, atLeast: false }

describe('without discard', () => {
  test('a subscription of a consumer without messages ends and is recorded; its dead letters stay', async () => {
    await consumers.subscribe('billing', 'order.placed', 'order.paid')
    await consumers.subscribe('mailer', 'order.placed')
    await consumers.dead('billing', 'm')
    expect(await remove('billing', { type: 'order.paid' })).toMatchObject({ outcome: 'removed', left: none })
    expect(await consumers.types('billing')).toEqual(['order.placed'])
    expect(await remove('billing')).toMatchObject({ outcome: 'removed', discarded: 0 })
    expect([await consumers.types('billing'), await consumers.types('mailer')]).toEqual([
      [],
      ['order.placed'],
    ])
    expect(await consumers.left('local_parked')).toEqual(['billing m'])
    expect(await consumers.removals()).toEqual([
      ['billing', 'order.paid', 0],
      ['billing', null, 0],
    ])
  })

  test('it is refused, and changes nothing, while messages wait or are parked: of this type only, if there is one', async () => {
    await consumers.subscribe('billing', 'order.placed', 'order.paid')
    await consumers.waiting('billing', 'a')
    await consumers.parked('billing', 'b', { due_at: consumers.ago(-60) })
    await consumers.waiting('mailer', 'c', { type: "'order.paid'" })
    const refused = { outcome: 'refused', waiting: { count: 2, atLeast: false } }
    expect(await remove('billing')).toEqual(refused)
    expect(await remove('billing', { type: 'order.placed' })).toEqual(refused)
    expect(await consumers.types('billing')).toEqual(['order.paid', 'order.placed'])
    expect(await consumers.removals()).toEqual([])
    expect(await remove('billing', { type: 'order.paid' })).toMatchObject({ outcome: 'removed' })
  })

  test('an unknown consumer or type is not recorded', async () => {
    await consumers.subscribe('billing', 'order.placed')
    await consumers.dead('mailer', 'm')
    for (const [name, type] of [['nobody'], ['billing', 'order'], ['Billing'], ['mailer']] as const)
      expect(await remove(name, { type })).toEqual({ outcome: 'unknown' })
    expect(await consumers.removals()).toEqual([])
  })
})

describe('with discard', () => {
  test('all messages and dead letters of the consumer are deleted, page by page, and counted in the record', async () => {
    await consumers.subscribe('billing', 'order.placed')
    const row = (n: number): string =>
      `('billing', ${n % 16}, 'm${n}', 'text/plain', '{}', 'x', ${consumers.ago(1)}, 'order.placed')`
    for (let from = 0; from < 2500; from += 500) {
      const rows = Array.from({ length: 500 }, (_, n) => row(from + n))
      await target.sql(
        `insert into ${consumers.table('local_outbox')}
           (consumer, shard, id, content_type, headers, payload, created_at, type) values ${rows.join(', ')}`,
      )
    }
    await consumers.parked('billing', 'p', { due_at: consumers.ago(1) })
    await consumers.dead('billing', 'd')
    await consumers.waiting('mailer', 'stays')
    await consumers.dead('mailer', 'stays')
    expect(await remove('billing', { discard: true })).toMatchObject({
      outcome: 'removed',
      discarded: 2502,
      left: none,
    })
    expect([await consumers.left('local_outbox'), await consumers.left('local_parked')]).toEqual([
      ['mailer stays'],
      ['mailer stays'],
    ])
    expect(await consumers.removals()).toEqual([['billing', null, 2502]])
  })

  test('only the messages of one type are deleted', async () => {
    await consumers.subscribe('billing', 'order.placed', 'order.paid')
    for (const type of ["'order.placed'", "'order.paid'", 'null']) {
      await consumers.waiting('billing', type.replaceAll("'", ''), { type })
      await consumers.parked('billing', type.replaceAll("'", ''), { type, due_at: consumers.ago(1) })
    }
    expect(await remove('billing', { type: 'order.paid', discard: true })).toMatchObject({
      discarded: 2,
      left: none,
    })
    expect(await consumers.left('local_outbox')).toEqual(['billing null', 'billing order.placed'])
    expect(await consumers.left('local_parked')).toEqual(['billing null', 'billing order.placed'])
    expect(await consumers.types('billing')).toEqual(['order.placed'])
    // Nobody subscribes, but the messages are there.
    expect(await remove('billing', { discard: true })).toMatchObject({ discarded: 4 })
  })

  test('a message that a handler has is left and reported, and nothing waits for the handler beyond the bound', async () => {
    await consumers.subscribe('billing', 'order.placed')
    await consumers.waiting('billing', 'held', { shard: '1' })
    await consumers.waiting('billing', 'free', { shard: '2' })
    const handler = await root.begin()
    try {
      await handler.exec(
        `select id from ${consumers.table('local_outbox')} where consumer = 'billing' and shard = 1 for update`,
      )
      expect(await remove('billing', { discard: true })).toMatchObject({
        discarded: 1,
        left: { count: 1, atLeast: false },
      })
    } finally {
      await handler.rollback()
    }
    expect(await remove('billing', { discard: true })).toMatchObject({ discarded: 1, left: none })
  })
})

describe('while publishers are open', () => {
  test('the removal waits for a publisher that has read the subscription, and reports what it has stored', async () => {
    await consumers.subscribe('billing', 'order.placed')
    const publisher = await root.begin()
    await publisher.exec(`select consumer from ${consumers.table('subscriptions')}`)
    const removing = remove('billing', { waitMs: 10_000 })
    while ((await consumers.types('billing')).length > 0) await new Promise((done) => setTimeout(done, 10))
    await publisher.exec(
      `insert into ${consumers.table('local_outbox')} (consumer, shard, id, content_type, headers, payload, created_at, type)
       values ('billing', 1, 'late', 'text/plain', '{}', 'x', ${consumers.ago(0)}, 'order.placed')`,
    )
    await publisher.commit()
    expect(await removing).toMatchObject({
      outcome: 'removed',
      discarded: 0,
      left: { count: 1, atLeast: false },
      openPublishers: false,
    })
    expect(await remove('billing', { discard: true })).toMatchObject({ discarded: 1, left: none })
  })

  test('a publisher that stays open costs the bounded wait, and is reported', async () => {
    await consumers.subscribe('billing', 'order.placed')
    const publisher = await root.begin()
    try {
      await publisher.exec(`select consumer from ${consumers.table('subscriptions')}`)
      const startedAt = performance.now()
      expect(await remove('billing', { waitMs: 500 })).toMatchObject({
        outcome: 'removed',
        openPublishers: true,
      })
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(500)
    } finally {
      await publisher.rollback()
    }
  })
})
