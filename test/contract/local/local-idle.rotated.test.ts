import { setTimeout as sleep } from 'node:timers/promises'
import { InvalidOptionError } from '@txbox/core'
import { expect, onTestFinished, test } from 'vitest'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useTarget, type Root } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { Gate } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'
import { smallPoolWarnings } from '../../support/worlds/warnings.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = mainKind(target)
/** Kysely, which is the main kind on MariaDB, hides its pool. */
const showsPool = kind.library !== 'kysely'

function rootOf(max: number): Root {
  const root = target.open(kind, { max })
  onTestFinished(() => root.close())
  return root
}

/** The transactions that are seen at two looks that are this far apart. */
async function lasting(apartMs: number): Promise<readonly { readonly statement: string }[]> {
  const before = await outbox.transactions()
  await sleep(apartMs)
  const after = new Set((await outbox.transactions()).map(({ id }) => id))
  return before.filter(({ id }) => after.has(id))
}

test('L9 no transaction stays open while nothing is handled, before the first message and after the last one', async () => {
  const root = rootOf(16)
  const subject = new LocalUnderTest(target, root, ['billing', 'mailer'])
  for (const consumer of ['billing', 'mailer']) await subject.start(consumer)
  for (let look = 0; look < 10; look += 1) expect(await lasting(60)).toEqual([])
  await subject.publish(...Array.from({ length: 30 }, (_, n) => ({ key: `k${n % 4}` })))
  for (const consumer of ['billing', 'mailer']) await subject.settled(consumer)
  for (let look = 0; look < 10; look += 1) expect(await lasting(60)).toEqual([])
})

test('L9 no transaction stays open while messages only wait for their next attempt, or for a handler of their type', async () => {
  const root = rootOf(16)
  const subject = new LocalUnderTest(target, root, { made: ['billing'], renamed: ['billing'] })
  await subject.start(
    'billing',
    () => {
      throw new Error('not now')
    },
    { retry: { attempts: 5, delayMs: () => 60_000 } },
  )
  await subject.publish({ key: 'a' }, { key: 'a' }, { type: 'renamed', key: 'b' })
  await subject.hears('retried')
  for (let look = 0; look < 10; look += 1) expect(await lasting(60)).toEqual([])
})

test('L9 as many transactions as handlers are open, and at most four connections more for the loops of all consumers', async () => {
  const root = rootOf(40)
  const names = ['billing', 'mailer', 'search']
  const subject = new LocalUnderTest(target, root, names)
  const before = await outbox.connections()
  const gate = new Gate()
  for (const name of names) await subject.start(name, () => gate.pass(), { concurrency: 3 })
  await subject.publish(...Array.from({ length: 30 }, (_, n) => ({ key: `k${n}` })))
  await gate.reached(9)
  // The loops go on polling and renewing beside the handlers.
  let most = 0
  for (let look = 0; look < 20; look += 1) {
    most = Math.max(most, (await outbox.connections()) - before)
    await sleep(50)
  }
  const stays = await lasting(200)
  gate.open()
  expect(stays.length).toBe(9)
  expect(most).toBeLessThanOrEqual(9 + 4)
  for (const name of names) await subject.settled(name)
})

if (showsPool) {
  test('L9 a pool of one connection is refused', async () => {
    const subject = new LocalUnderTest(target, rootOf(8))
    const small = rootOf(1)
    const starting = (async () => {
      const consumer = subject.create('billing', () => undefined, { concurrency: undefined }, small)
      await consumer.start()
    })()
    await expect(starting).rejects.toThrow(InvalidOptionError)
    await expect(starting).rejects.toThrow(/connection/)
  })

  test('L9 without `concurrency` the handlers leave connections of the pool to the loops and to the service', async () => {
    const root = rootOf(9)
    const subject = new LocalUnderTest(target, root, ['billing', 'mailer'])
    const gate = new Gate()
    for (const name of ['billing', 'mailer']) {
      await subject.start(name, () => gate.pass(), { concurrency: undefined })
    }
    await subject.publish(...Array.from({ length: 30 }, (_, n) => ({ key: `k${n}` })))
    await gate.reached(2)
    await sleep(500)
    const running = subject.runs.length
    // 9 less four of the loops less two of the service are three, which both consumers share: one each at least.
    expect(running).toBeGreaterThanOrEqual(2)
    expect(running).toBeLessThanOrEqual(3)
    // The service can still work.
    const [id] = await subject.publish({ key: 'from the service' })
    gate.open()
    for (const name of ['billing', 'mailer']) await subject.settled(name)
    expect(await subject.effects(id)).toBe(1)
  })

  test('L9 a consumer that stops leaves its share to the others, and no pool is said to be too small', async () => {
    const warnings = smallPoolWarnings()
    const subject = new LocalUnderTest(target, rootOf(16), ['billing', 'mailer', 'search'])
    await subject.start('billing', () => undefined, { concurrency: undefined })
    const mailer = await subject.start('mailer', () => undefined, { concurrency: undefined })
    const search = await subject.start('search', () => undefined, { concurrency: 2 })
    await mailer.stop()
    await search.stop()
    await sleep(200)
    expect(warnings).toEqual([])
  })

  test('L9 a pool that the options overrun is said once, with the sum', async () => {
    const warnings = smallPoolWarnings()
    const root = rootOf(16)
    const subject = new LocalUnderTest(target, root, ['billing', 'mailer', 'search'])
    for (const name of ['billing', 'mailer', 'search'])
      await subject.start(name, () => undefined, { concurrency: 7 })
    await until(
      async () => warnings.length > 0,
      () => 'a warning',
    )
    await sleep(200)
    expect(warnings.length).toBe(1)
    expect(warnings[0]).toMatch(/may need 18 connections at once .* but the pool opens at most 16/)
  })
}

test('L9 paused consumers handle nothing, and go on when they are resumed', async () => {
  const subject = new LocalUnderTest(target, rootOf(12))
  const consumer = await subject.start('billing')
  consumer.pause()
  const ids = await subject.publish({ key: 'a' }, { key: 'b' })
  await sleep(300)
  expect(subject.runs).toEqual([])
  expect(await lasting(60)).toEqual([])
  consumer.resume()
  await subject.settled()
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  expect(consumer.figures).toMatchObject({ inHand: 0, running: 0, waiting: 0, retrying: 0 })
})
