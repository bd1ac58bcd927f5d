import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { SchemaError } from '@txbox/core'
import type { LocalShard, LocalStore, LocalWork } from '@txbox/core/ports'
import { HubStore } from '../../packages/consumer/src/local/hub-store.ts'
import { wakeLocalConsumers } from '../../packages/consumer/src/local/local-hub.ts'
import type { LocalHeldShard } from '../../packages/consumer/src/local/local-membership.ts'
import { Member, QuietDatabase } from '../support/subjects/hub-members.ts'
import { until } from '../support/worlds/until.ts'

const RARELY = { min: 60_000, max: 60_000 }
const SLOW = { listening: RARELY, polling: RARELY }

function workOf(shards: readonly LocalShard[], consumer: string): readonly LocalWork[] {
  return shards
    .filter((one) => one.consumer === consumer)
    .map(({ shard }) => ({ consumer, shard, waiting: true, due: false }))
}

test('all consumers of a process and pool are polled by one statement, and each learns of its own rows', async () => {
  const database = new QuietDatabase()
  const ports = database.process()
  const [billing, mailer] = [await Member.joined(ports, 'billing'), await Member.joined(ports, 'mailer')]
  await billing.holds(16)
  await mailer.holds(16)
  database.answer = async (shards) => workOf(shards, 'mailer').slice(0, 1)
  await until(
    async () => mailer.finds.length > 0,
    () => 'a find',
  )
  expect(billing.finds).toEqual([])
  expect(mailer.finds[0]![0].consumer).toBe('mailer')
  expect(mailer.finds[0]![1]).toEqual({ waiting: true, due: false })
  expect(database.polls.at(-1)!.length).toBe(32)
  expect(database.leaseStores.length).toBe(1)
  expect(database.usedConnections).toBe(4)
  expect(database.registered).toEqual([
    ['billing', ['made']],
    ['mailer', ['made']],
  ])
})

test('a consumer whose types cannot be registered, or whose tables are missing, does not join', async () => {
  const database = new QuietDatabase()
  database.schema = new SchemaError('There are no tables.')
  await expect(Member.joined(database.process(), 'billing')).rejects.toBe(database.schema)
  expect(database.registered).toEqual([])
  expect(database.leaseStores).toEqual([])
})

test('polls follow each other quickly while messages are handled, and slowly when there are none', async () => {
  const database = new QuietDatabase()
  const billing = await Member.joined(database.process(), 'billing', {
    pollMs: { listening: { min: 10, max: 400 }, polling: { min: 10, max: 400 } },
  })
  await billing.holds(16)
  await pause(1500)
  database.polls.length = 0
  await pause(1000)
  expect(database.polls.length).toBeLessThanOrEqual(4)
  database.polls.length = 0
  const busy = setInterval(() => billing.membership.busy(1), 5)
  await pause(1000)
  clearInterval(busy)
  expect(database.polls.length).toBeGreaterThan(20)
})

test('T3 the consumers of this process look at once when a transaction of this process has published', async () => {
  const database = new QuietDatabase()
  const [ports, others] = [database.process(), database.process()]
  const billing = await Member.joined(ports, 'billing', { pollMs: SLOW })
  await billing.holds(16)
  await pause(100)
  database.answer = async (shards) => workOf(shards, 'billing')
  wakeLocalConsumers(others)
  await pause(100)
  expect(billing.finds).toEqual([])
  const wokenAt = performance.now()
  wakeLocalConsumers(ports)
  await until(
    async () => billing.finds.length === 16,
    () => '16 finds',
  )
  expect(performance.now() - wokenAt).toBeLessThan(100)
})

test('a consumer that has just acquired a shard learns of the rows that are there already', async () => {
  const database = new QuietDatabase()
  database.answer = async (shards) => workOf(shards, 'billing')
  const billing = await Member.joined(database.process(), 'billing', { pollMs: SLOW })
  await until(
    async () => billing.finds.length === 16,
    () => '16 finds',
    2000,
  )
})

test('a consumer looks at its own shards when it asks for it, and gets the error of its look', async () => {
  const database = new QuietDatabase()
  const ports = database.process()
  const billing = await Member.joined(ports, 'billing', { pollMs: SLOW })
  const mailer = await Member.joined(ports, 'mailer', { pollMs: SLOW })
  await billing.holds(16)
  await mailer.holds(16)
  await pause(100)
  database.polls.length = 0
  database.answer = async (shards) => workOf(shards, 'billing')
  await billing.membership.look()
  expect(billing.finds.length).toBe(16)
  expect(database.polls.map((poll) => new Set(poll.map(({ consumer }) => consumer)))).toEqual([
    new Set(['billing']),
  ])
  const away = new Error('away')
  database.answer = () => Promise.reject(away)
  await expect(billing.membership.look()).rejects.toBe(away)
  expect([...billing.failures, ...mailer.failures]).toEqual([])
})

test('an outage is reported to all consumers at growing intervals, and ends by itself', async () => {
  const database = new QuietDatabase()
  const ports = database.process()
  const [billing, mailer] = [await Member.joined(ports, 'billing'), await Member.joined(ports, 'mailer')]
  await billing.holds(16)
  await mailer.holds(16)
  const away = new Error('away')
  database.answer = () => Promise.reject(away)
  await until(
    async () => mailer.failures.length >= 2,
    () => 'failures',
  )
  await pause(1000)
  expect(billing.failures.length).toBeLessThan(8)
  expect(new Set([...billing.failures, ...mailer.failures])).toEqual(new Set([away]))
  database.answer = async (shards) => workOf(shards, 'billing')
  await until(
    async () => billing.finds.length > 0,
    () => 'finds',
  )
})

test('all shards are looked at again when the server is another one', async () => {
  const database = new QuietDatabase()
  const billing = await Member.joined(database.process(), 'billing')
  await billing.holds(16)
  expect(billing.finds).toEqual([])
  database.generation++
  await until(
    async () => billing.finds.length === 16,
    () => '16 finds',
  )
  await pause(100)
  expect(billing.finds.length).toBe(16)
  expect(billing.finds[0]![1]).toEqual({ waiting: true, due: true })
})

test('two processes share the shards of a consumer, and one that leaves hands over at once', async () => {
  const database = new QuietDatabase()
  const first = await Member.joined(database.process(), 'billing')
  await first.holds(16)
  const second = await Member.joined(database.process(), 'billing')
  await second.holds(8)
  await first.holds(8)
  const [busy] = first.shards as unknown as [LocalHeldShard]
  busy.beginWork()
  const left = first.leave()
  await second.holds(15)
  expect([...first.shards]).toEqual([busy])
  expect(busy.isLeaving).toBe(true)
  busy.endWork()
  await left
  expect(first.shards.size).toBe(0)
  await second.holds(16)
  expect(new Set(first.losses)).toEqual(new Set(['stopped']))
  expect([...second.shards].every(({ crashes }) => crashes === 0)).toBe(true)
})

test('work that does not end in time is cut off, and counts as a crash', async () => {
  const database = new QuietDatabase()
  const first = await Member.joined(database.process(), 'billing')
  await first.holds(16)
  const [busy] = first.shards as unknown as [LocalHeldShard]
  busy.beginWork()
  const begunAt = performance.now()
  await first.membership.leave(AbortSignal.timeout(200))
  expect(performance.now() - begunAt).toBeLessThan(1000)
  expect(busy.isTrusted).toBe(false)
  const second = await Member.joined(database.process(), 'billing')
  await second.holds(16)
  expect([...second.shards].filter(({ crashes }) => crashes > 0).map(({ shard }) => shard)).toEqual([
    busy.shard,
  ])
  busy.endWork()
})

test('a process that runs a consumer twice shares its shards between the two', async () => {
  const database = new QuietDatabase()
  const ports = database.process()
  const first = await Member.joined(ports, 'billing')
  await first.holds(16)
  const second = await Member.joined(ports, 'billing')
  await second.holds(8)
  await first.holds(8)
  await first.leave()
  await second.holds(16)
  await second.leave()
})

test('the loops end when the last consumer has left, and begin again for the next one', async () => {
  const database = new QuietDatabase()
  const ports = database.process()
  const [billing, mailer] = [await Member.joined(ports, 'billing'), await Member.joined(ports, 'mailer')]
  await billing.holds(16)
  await mailer.holds(16)
  await billing.leave()
  await until(
    async () => database.polls.at(-1)!.length === 16,
    () => 'a poll of one consumer',
  )
  expect(database.leases.ownersOf('local/billing/')).toEqual([])
  expect(database.leases.ownersOf('local/mailer/').length).toBe(16)
  await mailer.leave()
  // Another call is the first one.
  await mailer.leave()
  expect(database.leases.ownersOf('local')).toEqual([])
  expect(database.leaseStores[0]!.calls.at(-1)).toBe('close')
  expect(database.usedConnections).toBe(0)
  const polls = database.polls.length
  const calls = database.leaseStores[0]!.calls.length
  await pause(1200)
  expect([database.polls.length, database.leaseStores[0]!.calls.length]).toEqual([polls, calls])
  const again = await Member.joined(ports, 'billing')
  await again.holds(16)
})

test('a shard that was taken is lost, and is polled no more', async () => {
  const database = new QuietDatabase()
  const billing = await Member.joined(database.process(), 'billing')
  await billing.holds(16)
  const [taken] = billing.shards as unknown as [LocalHeldShard]
  database.leases.rows.get(taken.lease.name)!.owner = 'another'
  billing.membership.taken(taken)
  expect(billing.losses).toEqual(['taken'])
  expect(billing.membership.held.length).toBe(15)
  database.polls.length = 0
  await billing.membership.look()
  expect(database.polls[0]!.map(({ shard }) => shard)).not.toContain(taken.shard)
})

test('the statements of the loops wait for each other, and those of handlers do not', async () => {
  let running = 0
  let most = 0
  const slow = async (): Promise<void> => {
    most = Math.max(most, ++running)
    await pause(5)
    running--
  }
  const inner: Partial<LocalStore> = {
    release: slow,
    remove: slow,
    survived: () => slow().then(() => Promise.reject(new Error('refused'))),
  }
  const store = new HubStore(inner as LocalStore, 3)
  const at = { consumer: 'billing', shard: 0 }
  const lease = { name: 'local/billing/00', owner: 'me', term: 1n, crashes: 0, inFlight: undefined }
  const refused = await Promise.allSettled(Array.from({ length: 10 }, () => store.survived(lease)))
  expect(refused.every(({ status }) => status === 'rejected')).toBe(true)
  expect(most).toBe(3)
  await Promise.all(Array.from({ length: 10 }, () => store.release(lease, at, [])))
  expect([most, running]).toEqual([3, 0])
  await Promise.all(Array.from({ length: 10 }, () => store.remove({} as never, at, [])))
  expect(most).toBe(10)
})
