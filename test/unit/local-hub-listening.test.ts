import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { pollIntervalsOption } from '../../packages/core/src/leases/poll-intervals.ts'
import { Member, QuietDatabase } from '../support/subjects/hub-members.ts'
import { until } from '../support/worlds/until.ts'

const DEFAULT = pollIntervalsOption('test', undefined)

async function pollsIn(database: QuietDatabase, ms: number): Promise<number> {
  // The pause between two polls grows to its longest.
  await pause(1500)
  database.polls.length = 0
  await pause(ms)
  return database.polls.length
}

test('U4 consumers of a database that cannot notify poll ten times a second, however many they are', async () => {
  const database = new QuietDatabase()
  const ports = database.process()
  const members = await Promise.all(
    Array.from({ length: 20 }, (_, n) => Member.joined(ports, `consumer-${n}`, { pollMs: DEFAULT })),
  )
  for (const member of members) await member.holds(16)
  const polls = await pollsIn(database, 1000)
  expect(polls).toBeGreaterThanOrEqual(6)
  expect(polls).toBeLessThanOrEqual(11)
})

test('U1 while a connection listens that has notified, polls are rare; when it is lost, they are soon again, which one consumer says once', async () => {
  const database = new QuietDatabase()
  database.canListen = true
  const ports = database.process()
  const billing = await Member.joined(ports, 'billing', { pollMs: DEFAULT })
  const mailer = await Member.joined(ports, 'mailer', { pollMs: DEFAULT })
  await billing.holds(16)
  await mailer.holds(16)
  expect(database.sleepers.size).toBe(1)
  const [sleeper] = database.sleepers
  // The connection listens, but nothing shows that any transaction notifies.
  sleeper!.woken()
  expect(await pollsIn(database, 1000)).toBeGreaterThanOrEqual(6)
  sleeper!.woken(true)
  sleeper!.woken()
  expect(await pollsIn(database, 1000)).toBeLessThanOrEqual(3)
  sleeper!.failed(new Error('lost'))
  sleeper!.failed(new Error('refused'))
  expect(await pollsIn(database, 1000)).toBeGreaterThanOrEqual(6)
  expect([...billing.deafness, ...mailer.deafness].map(String)).toEqual(['Error: lost'])
  expect([...billing.failures, ...mailer.failures]).toEqual([])
  const polls = database.polls.length
  sleeper!.woken()
  await until(
    async () => database.polls.length > polls,
    () => 'a poll at once',
    50,
  )
  await billing.leave()
  expect(database.sleepers.size).toBe(1)
  await mailer.leave()
  expect(database.sleepers.size).toBe(0)
})

test('U1 a process whose consumers all poll does not listen, and one that joins later may', async () => {
  const database = new QuietDatabase()
  database.canListen = true
  const ports = database.process()
  await Member.joined(ports, 'billing', { listens: false })
  expect(database.sleepers.size).toBe(0)
  const mailer = await Member.joined(ports, 'mailer', { listens: true })
  expect(database.sleepers.size).toBe(1)
  await mailer.leave()
  expect(database.sleepers.size).toBe(0)
})
