import { setTimeout as sleep } from 'node:timers/promises'
import { InvalidOptionError, TransactionConflictError, type NotInTransactionError } from '@txbox/core'
import { atLeastOnce, createOutbox } from 'txbox'
import { expect, test } from 'vitest'
import { BoxUnderTest } from '../../support/subjects/box-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })

test('L2 a message that a transaction of the box publishes is handled once, with what the transaction wrote', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = await subject.start({ billing: { made: () => undefined } })
  const stored = await box.transact(async (tx) => {
    await target.effect(tx, subject.name('order'))
    return box.publish(subject.message('made', { key: 'a' }))
  })
  await subject.hasEffects(1)
  expect(await subject.effectsInOrder()).toEqual([stored.id])
  expect(await target.effects(subject.name('order'))).toBe(1)
})

test('O1 a transaction of the box that throws publishes nothing', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = subject.create({ billing: { made: () => undefined } })
  const refused = new Error('refused')
  const failing = box.transact(async (tx) => {
    await target.effect(tx, subject.name('order'))
    await box.publish(subject.message('made'))
    throw refused
  })
  await expect(failing).rejects.toBe(refused)
  expect(await subject.left()).toBe(0)
  expect(await target.effects(subject.name('order'))).toBe(0)
})

test('several messages are stored with one call, inside and with a transaction of the caller', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = subject.create({ billing: { made: () => undefined } })
  const inside = await box.transact(() => box.publish([subject.message('made'), subject.message('made')]))
  expect(inside).toHaveLength(2)
  const transaction = await root.begin()
  await box.publish(transaction.tx, subject.message('made'))
  await transaction.commit()
  expect(await subject.left()).toBe(3)
})

test('a transaction inside another joins it: there is one COMMIT', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = subject.create({ billing: { made: () => undefined } })
  const failing = box.transact(async (outer) => {
    await box.transact(async (inner) => {
      expect(inner).toBe(outer)
      await box.publish(subject.message('made'))
    })
    throw new Error('the outer one fails')
  })
  await expect(failing).rejects.toThrow('the outer one fails')
  expect(await subject.left()).toBe(0)
  // An inner error that is caught does not roll back by itself.
  await box.transact(async () => {
    const inner = box.transact(async () => {
      await box.publish(subject.message('made'))
      throw new Error('the inner one fails')
    })
    await expect(inner).rejects.toThrow('the inner one fails')
  })
  expect(await subject.left()).toBe(1)
})

test('a transaction that joins cannot have an isolation level of its own', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = subject.create()
  const joining = box.transact(() => box.transact(async () => undefined, { isolation: 'serializable' }))
  await expect(joining).rejects.toThrow(InvalidOptionError)
  await expect(joining).rejects.toThrow(/'isolation' must be absent inside another transaction of the box/)
})

test('a transaction of the box runs again after a conflict, and stores its messages once', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = subject.create({ billing: { made: () => undefined } })
  let attempts = 0
  const work = async (): Promise<string> => {
    attempts += 1
    await box.publish(subject.message('made'))
    if (attempts < 3) throw new TransactionConflictError('again')
    return 'done'
  }
  expect(await box.transact(work)).toBe('done')
  expect(attempts).toBe(3)
  expect(await subject.left()).toBe(1)
  attempts = -100
  await expect(box.transact(work, { attempts: 2 })).rejects.toThrow(TransactionConflictError)
  expect(attempts).toBe(-98)
})

test('publish outside of a transaction names the cures', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = subject.create({ billing: { made: () => undefined } })
  const other = subject.create()
  const refusals = [
    box.publish(subject.message('made')),
    // A transaction of another box is none of this one.
    other.transact(() => box.publish(subject.message('made'))),
  ]
  for (const refused of refusals) {
    await expect(refused).rejects.toMatchObject({
      code: 'TXBOX_NOT_IN_TRANSACTION',
      message: expect.stringMatching(
        /in no transaction of the box.*box\.transact\(.*box\.publish\(tx, message\)/,
      ),
    } satisfies Partial<Record<keyof NotInTransactionError, unknown>>)
  }
  let late: Promise<unknown> = Promise.resolve()
  await box.transact(async () => {
    late = sleep(50).then(() => box.publish(subject.message('made')))
    late.catch(() => undefined)
  })
  await expect(late).rejects.toThrow(/the transaction of the box in which this call was made has ended/)
  expect(await subject.left()).toBe(0)
})

test('in a handler publish and transact take its transaction, and at least once there is none', async () => {
  const subject = new BoxUnderTest(target, root)
  const refusals: unknown[] = []
  const box = await subject.start({
    billing: {
      made: async (tx) => {
        await box.transact(async (joined) => {
          expect(joined).toBe(tx)
          await box.publish(subject.message('billed'))
        })
      },
      billed: () => undefined,
    },
    mailer: {
      billed: atLeastOnce(async () => {
        await box.publish(subject.message('mailed')).catch((error: unknown) => refusals.push(error))
        await box.transact(() => box.publish(subject.message('mailed')))
      }),
      mailed: () => undefined,
    },
  })
  await box.transact(() => box.publish(subject.message('made')))
  await subject.hasEffects(2)
  await subject.hasEffects(1, 'mailer')
  expect(refusals).toMatchObject([{ code: 'TXBOX_NOT_IN_TRANSACTION' }])
})

test('a handler that fails publishes nothing', async () => {
  const subject = new BoxUnderTest(target, root)
  let attempts = 0
  const box = await subject.start({
    billing: {
      made: async () => {
        attempts += 1
        await box.publish(subject.message('billed'))
        if (attempts < 3) throw new Error('not yet')
      },
    },
    mailer: { billed: () => undefined },
  })
  await box.transact(() => box.publish(subject.message('made')))
  await subject.hasEffects(1, 'mailer')
  await sleep(200)
  expect(await subject.effectsInOrder('mailer')).toHaveLength(1)
})

/** Starts a box whose consumer polls once a minute: a message is found earlier only by a wake-up. */
async function startAsleep(subject: BoxUnderTest): Promise<ReturnType<BoxUnderTest['created']>> {
  const handlers = subject.handlers('billing', { made: () => undefined }) as never
  const pollIntervalMs = { min: 60_000, max: 60_000 }
  const box = subject.created({
    consumers: { [subject.name('billing')]: { handlers, pollIntervalMs } },
    gc: false,
    logger: false,
  })
  await box.start()
  // The first poll finds the shards that were acquired.
  await sleep(500)
  return box
}

test('T3 the consumers of this process look at once after a transaction of the box, whichever outbox published', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = await startAsleep(subject)
  await box.transact(() => box.publish(subject.message('made')))
  await subject.hasEffects(1, 'billing', 5000)
  const outbox = createOutbox({ database: root.database, subscriptions: 'registered' })
  await box.transact((tx) => outbox.publish(tx as never, subject.message('made')))
  await subject.hasEffects(2, 'billing', 5000)
})

test('T3 T7 the inbox of a box wakes its consumers, and gives its messages as causes', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = await startAsleep(subject)
  const inbox = box.inbox(subject.name('webhook'))
  const deliver = (): Promise<{ status: string }> =>
    inbox.run({ id: 'event', payload: 1 }, async () => void (await box.publish(subject.message('made'))))
  expect((await deliver()).status).toBe('processed')
  await subject.hasEffects(1, 'billing', 5000)
  expect((await deliver()).status).toBe('duplicate')
  expect(subject.runs.map(({ message }) => message)).toMatchObject([
    { correlationId: 'event', causationId: 'event' },
  ])
  expect(box.inbox(subject.name('webhook'))).toBe(inbox)
})

test('L3 a message for nobody is refused, or ignored', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = subject.create({ billing: { made: () => undefined } })
  await expect(box.transact(() => box.publish(subject.message('misspelt')))).rejects.toThrow(
    /no local consumer subscribes to its type.*made-/,
  )
  const ignoring = subject.create({}, { unrouted: 'ignore' })
  await ignoring.transact(() => ignoring.publish(subject.message('misspelt')))
})

test('L2 a box publishes for its own consumers, for those it is told, and for those that are registered, once each', async () => {
  const subject = new BoxUnderTest(target, root)
  const elsewhere = await subject.start({ search: { made: () => undefined } })
  await elsewhere.stop()
  const type = subject.type('made')
  const subscriptions = { [type]: [subject.name('mailer'), subject.name('billing')] }
  const box = subject.create({ billing: { made: () => undefined } }, { subscriptions })
  await box.transact(() => box.publish(subject.message('made')))
  expect(
    await Promise.all(['billing', 'mailer', 'search'].map((consumer) => subject.left(consumer))),
  ).toEqual([1, 1, 1])
  await box.start()
  await box.transact(() => box.publish(subject.message('made')))
  await subject.hasEffects(2)
  expect(await Promise.all(['mailer', 'search'].map((consumer) => subject.left(consumer)))).toEqual([2, 2])
})
