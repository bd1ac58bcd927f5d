import { expect, test } from 'vitest'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { atLeastOnce, createLocalConsumer } from '@txbox/consumer'
import { createOutbox } from '@txbox/outbox'
import { createDeadLetters, PermanentError } from '@txbox/relay'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { useTarget } from '../../support/engines/target.ts'
import { useGarbage } from '../../support/subjects/garbage.ts'
import { usePrivilegedUsers, type Role } from '../../support/subjects/privileged-users.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const garbage = useGarbage(target)
const users = usePrivilegedUsers(target, useOutboxTarget(target))

const as = (role: Role): ConnectedDatabase<TransactionHandle> => users.as(role)

test('a local consumer registers, handles, parks and buries what a service publishes to it', async () => {
  const consumer = createLocalConsumer({
    database: as('local'),
    consumer: 'c',
    handlers: {
      'order.placed': (tx: TransactionHandle) => target.effect(tx, 'handled'),
      'order.mailed': atLeastOnce(() => Promise.resolve()),
      'order.refused': () => Promise.reject(new PermanentError('no')),
      'order.again': () => Promise.reject(new Error('later')),
    },
  })
  await consumer.start()
  const database = as('app')
  const outbox = createOutbox({ database, subscriptions: 'registered', lockKeys: true })
  const types = ['order.placed', 'order.mailed', 'order.refused', 'order.again', 'order.placed']
  await database.transact((tx) =>
    outbox.publish(tx, [
      ...types.map((type) => ({ type, key: type, payload: 1 })),
      { type: 'order.placed', payload: 2, deliverAt: new Date(Date.now() + 3_600_000) },
    ]),
  )
  const figures = async (): Promise<unknown> => {
    const [own] = await connectedPortsOf('test', as('viewer')).inspection().localConsumers(5)
    const { waiting, parked, scheduled, dead, runsNow } = own!
    return [waiting, parked, scheduled, dead].map(({ count }) => count).concat(runsNow ? 1 : 0)
  }
  await until(
    async () => JSON.stringify(await figures()) === '[0,1,1,1,1]',
    async () => JSON.stringify(await figures()),
  )
  await consumer.stop()
  expect(await target.effects('handled')).toBe(2)
  await garbage.clear()
})

test('an operator lists, redrives and discards messages of local consumers, and ends their subscriptions', async () => {
  for (const id of ['a', 'b']) await garbage.parkLocal({ id, diedAgo: 1 })
  const operator = createDeadLetters({ database: as('operator') })
  expect(await operator.list({ consumer: 'c' })).toHaveLength(2)
  expect(await operator.redrive({ ids: ['a'] })).toHaveLength(1)
  expect(await operator.discard({ ids: ['b'] })).toHaveLength(1)
  const ports = connectedPortsOf('test', as('operator'))
  const store = ports.deadLetters({ statementTimeoutMs: 10_000, local: true })
  const filter = { ids: undefined, topic: undefined, type: undefined, key: undefined, after: undefined }
  expect((await store.retry(filter, 10)).messages).toEqual([])
  await expect(store.payloads('a', true, 10)).rejects.toThrow(/denied/)
  expect(await ports.inspection().localConsumers(5)).toMatchObject([{ name: 'c', parked: { count: 1 } }])
  await ports.subscriptions().register('c', ['t'])
  const how = { type: undefined, by: 'me', waitMs: 100 }
  expect(await ports.removals().remove('c', { ...how, discard: false })).toMatchObject({
    outcome: 'refused',
  })
  expect(await ports.removals().remove('c', { ...how, discard: true })).toMatchObject({ discarded: 1 })
  const viewer = connectedPortsOf('test', as('viewer')).inspection()
  expect(await viewer.localConsumers(5)).toEqual([])
  expect(await garbage.removedConsumers()).toContain('c')
})
