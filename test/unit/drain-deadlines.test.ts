import { createLocalConsumer, createRelay, createTxbox, publishEach, type Txbox } from 'txbox'
import { DatabaseUnavailableError, portsKey, type ConnectedDatabase } from '@txbox/core'
import type { ConnectedPorts, LocalStore } from '@txbox/core/ports'
import { expect, onTestFinished, test } from 'vitest'
import { QuietDatabase } from '../support/subjects/hub-members.ts'

const DEADLINE_MS = 300
const never = (): Promise<never> => new Promise(() => undefined)
const handlers = { made: () => undefined }

/** A database in which one message is due, and what the test adds. */
function databaseWith(
  changed: Partial<ConnectedPorts>,
  local: Partial<LocalStore> = {},
): ConnectedDatabase<unknown> {
  const quiet = new QuietDatabase()
  const ports = quiet.process()
  const isUsable = { revision: 'usable', isEmbedded: false }
  const all: ConnectedPorts = {
    ...ports,
    relay: () => ({}) as never,
    deadLetters: () => ({}) as never,
    isConflict: () => false,
    tables: () => ({ state: async () => isUsable }) as never,
    inspection: () => ({ lag: async () => ({ backlog: { count: 2 }, parked: { count: 0 } }) }) as never,
    local: (how) => Object.assign(ports.local(how), { countDue: async () => 1, ...local }),
    ...changed,
  }
  quiet.answer = async (shards) => [{ ...shards[0]!, waiting: false, due: true }]
  return { engine: 'postgres', [portsKey]: all, transact: never } as unknown as ConnectedDatabase<unknown>
}

function boxOn(database: ConnectedDatabase<unknown>): Txbox<unknown> {
  const box = createTxbox({ database, consumers: { billing: handlers }, gc: false, logger: false })
  onTestFinished(() => box.stop({ timeoutMs: 100 }))
  return box
}

async function durationMs(work: () => Promise<unknown>): Promise<number> {
  const begunAt = performance.now()
  await work()
  return performance.now() - begunAt
}

test.each<[string, Partial<ConnectedPorts>]>([
  ['the tables are looked up', { tables: () => ({ state: never }) as never }],
  [
    'another process migrates',
    {
      tables: () =>
        ({ state: async () => ({ revision: 'none', isEmbedded: false }), migrate: never }) as never,
    },
  ],
  ['the tables are checked', { checkSchema: never }],
  ['consumers are registered', { subscriptions: () => ({ register: never, list: never }) }],
])('T6 the deadline of a drain of a box holds while %s', async (_, changed) => {
  const box = boxOn(databaseWith(changed))
  const elapsed = await durationMs(async () => {
    const error: unknown = await box.drain({ deadlineMs: DEADLINE_MS }).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(DatabaseUnavailableError)
    expect(String(error)).toMatch(/^DatabaseUnavailableError: drain: .* were not ready within 300 ms/)
  })
  expect(elapsed).toBeLessThan(DEADLINE_MS + 700)
})

test('T6 a local consumer whose registration hangs has handled nothing at the deadline, and counts what is left', async () => {
  const database = databaseWith({ subscriptions: () => ({ register: never, list: never }) })
  const consumer = createLocalConsumer({ database, consumer: 'billing', handlers, logger: false })
  onTestFinished(() => consumer.stop({ timeoutMs: 100 }))
  const elapsed = await durationMs(async () => {
    const drained = await consumer.drain({ deadlineMs: DEADLINE_MS })
    expect(drained).toEqual({ handled: 0, parked: 0, deadLettered: 0, left: 1 })
  })
  expect(elapsed).toBeLessThan(DEADLINE_MS + 700)
})

test('T6 a preparation that fails after the deadline of its drain does not end the run of the next drain, which ends with its drain', async () => {
  const failed = Promise.withResolvers<never>()
  const register = [() => failed.promise]
  let used = 0
  const database = databaseWith(
    {
      subscriptions: () => ({ register: async () => register.shift()?.() ?? [], list: never }),
      useConnections: (_, connections) => {
        used += connections
        return () => void (used -= connections)
      },
    },
    { work: async () => [] },
  )
  const consumer = createLocalConsumer({ database, consumer: 'billing', handlers, logger: false })
  onTestFinished(() => consumer.stop({ timeoutMs: 100 }))
  await consumer.drain({ deadlineMs: DEADLINE_MS })
  const second = consumer.drain({ deadlineMs: 2000 })
  failed.reject(new Error('the preparation failed'))
  await second
  expect(used).toBe(0)
})

test('T6 a relay whose start hangs has published nothing at the deadline', async () => {
  const database = databaseWith({ checkSchema: never })
  const relay = createRelay({ database, publisher: publishEach(() => undefined), logger: false })
  onTestFinished(() => relay.stop({ timeoutMs: 100 }))
  const elapsed = await durationMs(async () => {
    const drained = await relay.drain({ deadlineMs: DEADLINE_MS })
    expect(drained).toEqual({ published: 0, parked: 0, deadLettered: 0 })
  })
  expect(elapsed).toBeLessThan(DEADLINE_MS + 700)
})

test('T6 what is left is not a number if it is not counted soon after the deadline', async () => {
  const box = boxOn(databaseWith({}, { countDue: never }))
  const elapsed = await durationMs(async () => {
    const drained = await box.drain({ deadlineMs: DEADLINE_MS })
    expect(drained).toMatchObject({
      handled: 0,
      left: Number.NaN,
      consumers: { billing: { left: Number.NaN } },
    })
  })
  expect(elapsed).toBeGreaterThan(DEADLINE_MS + 900)
  expect(elapsed).toBeLessThan(DEADLINE_MS + 1700)
})

test('T6 a look for messages that hangs ends at the deadline', async () => {
  const box = boxOn(databaseWith({}, { work: never }))
  const elapsed = await durationMs(async () => {
    expect(await box.drain({ deadlineMs: DEADLINE_MS })).toMatchObject({ handled: 0, left: 1 })
  })
  expect(elapsed).toBeLessThan(DEADLINE_MS + 700)
})
