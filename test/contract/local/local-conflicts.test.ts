import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import {
  mainKind,
  onEachRoot,
  useRoot,
  useTarget,
  type HandleKind,
  type Root,
} from '../../support/engines/target.ts'
import { Gate } from '../../support/worlds/broker.ts'
import { Proxy } from '../../support/worlds/proxy.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()

/** A root whose connections a test can cut. */
async function throughProxy(kind: HandleKind): Promise<{ proxy: Proxy; through: Root }> {
  const proxy = await Proxy.to(target.address())
  const through = target.open(kind, { through: proxy, max: 12 })
  await through.ready?.()
  onTestFinished(async () => {
    await through.close()
    await proxy.close()
  })
  return { proxy, through }
}

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 16 })

  test('L5 C11 a deadlock is tried again at once, in a new transaction, uncounted', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish({ key: 'a' }, { key: 'b' })
    for (const id of ids) await target.sql('insert into counters (name, n) values (?, 0)', [id])
    const both = Promise.withResolvers<void>()
    let inside = 0
    const increment = (tx: TransactionHandle, id: string | undefined): Promise<unknown> =>
      target.exec(tx, 'update counters set n = n + 1 where name = ?', [id])
    await subject.start(
      'billing',
      async (tx, { id }) => {
        await increment(tx, id)
        // Both lock their first row before either requests the other's row, so there is always a deadlock.
        if ((inside += 1) === 2) both.resolve()
        await both.promise
        await increment(
          tx,
          ids.find((other) => other !== id),
        )
      },
      { retry: { attempts: 2, delayMs: () => 10 } },
    )
    await subject.settled()
    expect(subject.runs.length).toBeGreaterThan(2)
    expect(subject.runs.every(({ deliveries }) => deliveries === 1)).toBe(true)
    expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
    expect(await target.sql('select n from counters where name in (?, ?)', ids)).toEqual([{ n: 2 }, { n: 2 }])
    const retried = subject.heardOf('retried')
    expect(retried.length).toBeGreaterThan(0)
    expect(retried.every(({ local }) => local)).toBe(true)
  })

  test('L5 an outage of the database while handlers run costs no attempt, and the effect is there once', async () => {
    const { proxy, through } = await throughProxy(kind)
    const subject = new LocalUnderTest(target, root)
    const gate = new Gate()
    const ids = await subject.publish({ key: 'a' }, { key: 'a' }, { key: 'b' }, {})
    await subject.start(
      'billing',
      async () => {
        if (subject.runs.length <= 3) await gate.pass()
      },
      { retry: { attempts: 2, delayMs: () => 10 } },
      through,
    )
    await gate.reached(3)
    const outage = proxy.refuse()
    gate.open()
    await subject.hears('unavailable')
    await sleep(300)
    outage.over()
    await subject.settled()
    const effects = await subject.effectsInOrder()
    expect(effects.toSorted()).toEqual(ids.toSorted())
    expect(effects.filter((id) => ids.slice(0, 2).includes(id))).toEqual(ids.slice(0, 2))
    expect(subject.runs.every(({ deliveries }) => deliveries === 1)).toBe(true)
    expect(subject.heardOf('dead-lettered')).toEqual([])
  })

  for (const when of ['before', 'after'] as const) {
    test(`L1 L5 the connection breaks ${when} the server gets COMMIT: the effect is there once, and no attempt is counted`, async () => {
      const { proxy, through } = await throughProxy(kind)
      const subject = new LocalUnderTest(target, root)
      const gate = new Gate()
      const ids = await subject.publish({ key: 'a' }, { key: 'a' })
      await subject.start('billing', () => gate.pass(), {}, through)
      await gate.reached()
      // No other transaction of the consumer is open, or begins, with such a text at this moment: its loops are plain statements.
      if (when === 'before') proxy.cutBefore(/\bcommit\b/i)
      else proxy.cutAfter(/\bcommit\b/i)
      gate.open()
      await subject.settled()
      expect(await subject.effectsInOrder()).toEqual(ids)
      expect(subject.runs.every(({ deliveries }) => deliveries === 1)).toBe(true)
      // After a COMMIT whose answer was lost the message is gone: its handler is not called again.
      if (when === 'after') expect(subject.runsOf(ids[0]).length).toBe(1)
      expect(subject.heardOf('dead-lettered')).toEqual([])
    })
  }
})

const root = useRoot(target, mainKind(target), { max: 16 })

test('L5 a server that ends the connection of a handler: the message is handled again, and the effect is there once', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  await subject.start('billing', async (tx) => {
    if (subject.runs.length > 1) return
    const isPostgres = target.engine === 'postgres'
    const own = isPostgres ? 'select pg_backend_pid() as id' : 'select connection_id() as id'
    const connection = Number((await target.exec(tx, own))[0]!['id'])
    await target.sql(isPostgres ? `select pg_terminate_backend(${connection})` : `kill ${connection}`)
  })
  await subject.settled()
  expect(await subject.effects(id)).toBe(1)
  expect(subject.runsOf(id).length).toBe(2)
  expect(subject.runsOf(id).map(({ deliveries }) => deliveries)).toEqual([1, 1])
})

test('L5 a consumer that loses the database when it is idle works when it is back', async () => {
  const { proxy, through } = await throughProxy(mainKind(target))
  const subject = new LocalUnderTest(target, root)
  await subject.start('billing', () => undefined, {}, through)
  const [first] = await subject.publish({ key: 'a' })
  await subject.hears('handled')
  const outage = proxy.refuse()
  await sleep(500)
  const [second] = await subject.publish({ key: 'a' })
  outage.over()
  await subject.hears('handled', 2)
  expect(await subject.effectsInOrder()).toEqual([first, second])
  await until(
    async () => (await subject.left()) === 0,
    () => subject.describe(),
  )
})

for (const isolationLevel of ['read committed', 'repeatable read'] as const) {
  test(`L1 a handler's transaction is ${isolationLevel} if the consumer says so`, async () => {
    const subject = new LocalUnderTest(target, root)
    const name = `seen ${subject.name()}`
    const seen: number[] = []
    await subject.publish({ key: 'a' })
    await subject.start(
      'billing',
      async (tx) => {
        const count = async (): Promise<void> => {
          const [row] = await target.exec(tx, 'select count(*) as n from effects where name = ?', [name])
          seen.push(Number(row?.['n']))
        }
        await count()
        await target.sql('insert into effects (name) values (?)', [name])
        await count()
      },
      { isolationLevel },
    )
    await subject.settled()
    expect(seen).toEqual(isolationLevel === 'read committed' ? [0, 1] : [0, 0])
  })
}

if (target.engine !== 'postgres') {
  test('L1 without an option, a handler runs at READ COMMITTED, so that a missing row leaves no gap locked', async () => {
    const subject = new LocalUnderTest(target, root)
    const gate = new Gate()
    await subject.publish({ key: 'a' })
    await subject.start('billing', async (tx) => {
      await target.exec(tx, "select n from counters where name = 'zz-missing' for update")
      await gate.pass()
    })
    await gate.reached()
    // At REPEATABLE READ this insert would wait for the handler.
    const inserted = target.sql("insert into counters (name, n) values ('zz-new', 0)")
    const outcome = await Promise.race([inserted.then(() => 'inserted'), sleep(3000, 'waits')])
    gate.open()
    expect(outcome).toBe('inserted')
    await inserted
    await target.sql("delete from counters where name = 'zz-new'")
    await subject.settled()
  })
}
