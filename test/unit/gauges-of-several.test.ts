import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { telemetryKey, type Observation, type Telemetry } from '@txbox/core'
import { GuardedTelemetry, registeredTelemetry, whileInUse } from '@txbox/core/internal'
import { GaugesUnderTest } from '../support/subjects/gauges-under-test.ts'
import { warningsOf } from '../support/worlds/warnings.ts'

const values =
  (...all: readonly (readonly [number, object?])[]) =>
  async () =>
    all.map(([value, attributes = {}]) => ({ value, attributes }) as Observation)

const register = (telemetry: unknown): void => void Object.assign(globalThis, { [telemetryKey]: telemetry })

test('several readers of a gauge give each time series one value: a sum, of ages the highest, of a state the lowest', async () => {
  const telemetry = new GaugesUnderTest()
  const guard = new GuardedTelemetry(telemetry)
  guard.observe('txbox.relay.shards', values([3], [1, { a: 'x', b: 'y' }]))
  const end = guard.observe('txbox.relay.shards', values([4], [2, { b: 'y', a: 'x' }], [5, { a: 'z' }]))
  guard.observe('txbox.oldest_due.age', values([3]))
  guard.observe('txbox.oldest_due.age', values([2]))
  guard.observe('txbox.relay.publisher.up', values([1]))
  guard.observe('txbox.relay.publisher.up', values([0]))
  expect(await telemetry.all('txbox.relay.shards')).toEqual([
    { value: 7, attributes: {} },
    { value: 3, attributes: { a: 'x', b: 'y' } },
    { value: 5, attributes: { a: 'z' } },
  ])
  expect(await telemetry.value('txbox.oldest_due.age')).toBe(3)
  expect(await telemetry.value('txbox.relay.publisher.up')).toBe(0)
  end()
  expect(await telemetry.value('txbox.relay.shards')).toBe(3)
})

test('a reader that fails leaves the others their values, and a gauge without readers is ended', async () => {
  const telemetry = new GaugesUnderTest()
  const guard = new GuardedTelemetry(telemetry)
  const fails = async (): Promise<never> => {
    throw new Error('a reader')
  }
  const ends = [
    guard.observe('txbox.relay.shards', fails),
    guard.observe('txbox.relay.shards', values([2])),
    guard.observe('txbox.relay.shards', () => {
      throw new Error('a reader that throws')
    }),
  ]
  expect(telemetry.size).toBe(1)
  expect(await telemetry.value('txbox.relay.shards')).toBe(2)
  for (const end of [...ends, ...ends]) end()
  expect(telemetry.size).toBe(0)
  guard.observe('txbox.relay.shards', values([4]))
  expect(await telemetry.value('txbox.relay.shards')).toBe(4)
})

test('a telemetry whose gauges throw, hang, reject or answer nonsense is told of once, and ends of gauges disturb nothing', async () => {
  const wrong: readonly (() => unknown)[] = [
    () => {
      throw new Error('a telemetry')
    },
    () => new Promise(() => undefined),
    async () => {
      throw new Error('a telemetry')
    },
    () => 'nonsense',
    () => () => {
      throw new Error('the end of a gauge')
    },
  ]
  for (const observe of wrong) {
    const warnings = warningsOf('TXBOX_TELEMETRY')
    const guard = new GuardedTelemetry(Object.assign(new GaugesUnderTest(), { observe }) as Telemetry)
    const ends = [
      guard.observe('txbox.relay.shards', values([1])),
      guard.observe('txbox.queue.age', values([1])),
    ]
    for (const end of ends) end()
    await new Promise((resolve) => void setImmediate(resolve))
    expect(warnings).toHaveLength(1)
  }
})

test('a telemetry that is registered later, or in place of another, has the gauges within a second', async () => {
  onTestFinished(() => register(undefined))
  const [first, second] = [new GaugesUnderTest(), new GaugesUnderTest()]
  const end = whileInUse(registeredTelemetry, (inUse) => inUse.observe('txbox.relay.shards', values([1])))
  const other = whileInUse(registeredTelemetry, (inUse) => inUse.observe('txbox.queue.age', values([1])))
  register(first)
  await sleep(1200)
  expect([first.size, second.size]).toEqual([2, 0])
  register(second)
  await sleep(1200)
  expect([first.size, second.size]).toEqual([0, 2])
  end()
  end()
  expect(second.size).toBe(1)
  register(undefined)
  await sleep(1200)
  expect(second.size).toBe(0)
  other()
})
