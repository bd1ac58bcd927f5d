import { BrokerUnavailableError } from '@txbox/core'
import { publishEach } from 'txbox'
import { expect, onTestFinished, test, vi } from 'vitest'
import { BoxUnderTest } from '../../support/subjects/box-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 24 })

test('a box that has not been started is not ok, one that runs is, and oldestDueMs is 0 while nothing is due', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = subject.create(
    { billing: { made: () => undefined } },
    { gc: {}, publisher: publishEach(() => undefined) },
  )
  const parts = [subject.name('billing'), 'gc', 'relay']
  const idle = await box.health()
  expect(idle).toMatchObject({ ok: false, oldestDueMs: 0 })
  expect(Object.keys(idle.parts).toSorted()).toEqual(parts)
  await box.transact(() => box.publish(subject.message('made')))
  await until(
    async () => (await box.health()).oldestDueMs > 0,
    () => 'a message is due',
  )
  await box.start()
  await subject.hasEffects(1)
  await until(
    async () => (await box.health()).oldestDueMs === 0,
    async () => JSON.stringify(await box.health()),
  )
  const healthy = await box.health()
  expect(healthy).toEqual({
    ok: true,
    parts: Object.fromEntries(parts.map((part) => [part, { ok: true }])),
    oldestDueMs: 0,
  })
})

test('rows of consumers that this box does not run do not count as due', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = await subject.start(
    {},
    { subscriptions: { [subject.type('made')]: [subject.name('elsewhere')] } },
  )
  await box.transact(() => box.publish(subject.message('made')))
  expect(await box.health()).toEqual({ ok: true, parts: {}, oldestDueMs: 0 })
})

test('a part that fails later is trouble, and not the end: its name and error are reported until it works again', async () => {
  const subject = new BoxUnderTest(target, root)
  let isAway = true
  const publisher = {
    publish: async (messages: readonly unknown[]) => {
      if (isAway) throw new BrokerUnavailableError('The broker is away.')
      return messages.map(() => ({ status: 'accepted' as const }))
    },
  }
  const source = new MemorySource()
  source.openFailures.push(new Error('The queue is away.'))
  const sources = {
    [subject.name('payments')]: { source, handlers: subject.handlers('payments', { paid: () => undefined }) },
  }
  const box = subject.create({}, { publisher, sources })
  const troubles: { part: string; error: unknown }[] = []
  box.on('trouble', (trouble) => troubles.push(trouble))
  await box.start()
  await box.transact(() => box.publish(subject.message('made', { topic: 'orders' })))
  await until(
    async () => new Set(troubles.map(({ part }) => part)).size === 2,
    () => JSON.stringify(troubles),
  )
  expect(troubles.find(({ part }) => part === 'relay')?.error).toMatchObject({
    code: 'TXBOX_BROKER_UNAVAILABLE',
  })
  expect(await box.health()).toMatchObject({
    ok: false,
    parts: { relay: { ok: false, reason: expect.stringContaining('The broker is away.') } },
  })
  isAway = false
  await until(
    async () => (await box.health()).parts['relay']?.ok === true,
    async () => JSON.stringify(await box.health()),
  )
})

test('without a logger and a listener, the first trouble of a part becomes a process warning', async () => {
  const subject = new BoxUnderTest(target, root)
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  onTestFinished(() => warned.mockRestore())
  const publisher = { publish: () => Promise.reject(new BrokerUnavailableError('The broker is away.')) }
  const box = await subject.start({}, { publisher, logger: undefined })
  await box.transact(() => box.publish(subject.message('made', { topic: 'orders' })))
  const troubles = (): readonly unknown[][] =>
    warned.mock.calls.filter(([, how]) => Reflect.get(how as object, 'code') === 'TXBOX_UNHEARD_TROUBLE')
  await until(
    async () => troubles().length > 0,
    () => JSON.stringify(warned.mock.calls),
  )
  expect(troubles()).toHaveLength(1)
  expect(troubles()[0]?.[0]).toMatch(
    /^The part 'relay' of a box has trouble: .*The broker is away.*'trouble' has no listener/,
  )
})
