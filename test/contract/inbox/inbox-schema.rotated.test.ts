import { describe, expect, test } from 'vitest'
import { SchemaError } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import { kindsOfTier, mainKind, onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'

describe('without tables', () => {
  const target = useTarget({ migrated: false })

  onEachKind(target, (kind) => {
    const root = useRoot(target, kind)

    for (const way of WAYS) {
      test(`a missing table is a SchemaError that names the command, and fn is not called (${way})`, async () => {
        const subject = new InboxUnderTest(target, root)
        await expectSchemaError(subject.deliver(way, { id: 'x' }))
        expect([subject.calls, await subject.effects()]).toEqual([0, 0])
      })
    }

    test('a missing table is a SchemaError for every call of a database without its own connections', async () => {
      const inbox = createInbox({ database: target.detached(), consumer: 'c' })
      for (const call of [
        (tx: never) => inbox.process(tx, { id: 'x' }, () => undefined),
        (tx: never) => inbox.processBatch(tx, [{ id: 'x' }], () => undefined),
        (tx: never) => inbox.markProcessed(tx, { id: 'x' }),
        (tx: never) => inbox.hasProcessed(tx, { id: 'x' }),
        (tx: never) => inbox.forget(tx, { id: 'x' }),
      ]) {
        const transaction = await root.begin()
        await expectSchemaError(call(transaction.tx as never))
        await transaction.rollback()
      }
    })
  })
})

describe('while the tables are created and dropped', () => {
  const target = useTarget({ migrated: false })
  const kind = mainKind(target)
  const root = useRoot(target, kind)

  test('an inbox that was used too early works as soon as the tables exist, and nothing is lost', async () => {
    const subject = new InboxUnderTest(target, root)
    await expectSchemaError(subject.process({ id: 'x' }))
    await expectSchemaError(subject.inbox.run({ id: 'x' }, subject.handle))
    expect((await target.migrate()).length).toBeGreaterThan(0)
    expect(await target.migrate()).toEqual([])
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    expect(await subject.inbox.run({ id: 'x' }, subject.handle)).toMatchObject({ status: 'duplicate' })
    expect(await subject.effects()).toBe(1)
  })

  test('another schema has separate claims, and a missing schema is reported by name', async () => {
    const elsewhere = target.open(kind, { schema: 'Else where' })
    const here = new InboxUnderTest(target, root)
    const there = new InboxUnderTest(target, elsewhere, { consumer: here.consumer })
    await expect(there.process({ id: 'x' })).rejects.toThrow(/Else where/)
    await target.migrate({ schema: 'Else where' })
    expect([(await here.process({ id: 'x' })).status, (await there.process({ id: 'x' })).status]).toEqual([
      'processed',
      'processed',
    ])
    await elsewhere.close()
  })

  test('two services that migrate at the same instant share the work', async () => {
    const applied = await Promise.all(Array.from({ length: 4 }, () => target.migrate({ schema: 'together' })))
    expect(applied.filter((titles) => titles.length > 0).length).toBe(1)
  })
})

describe.each(['later', 'earlier'] as const)('with tables of a revision that is %s', (revision) => {
  const target = useTarget()

  onEachKind(target, (kind) => {
    const root = useRoot(target, kind)

    test('the first use is a SchemaError that names the revision, and nothing is written', async () => {
      const before = new InboxUnderTest(target, root)
      if (kind === kindsOfTier(target)[0]) {
        expect(await before.process({ id: 'x' })).toMatchObject({ status: 'processed' })
        await target.pretendRevision(revision)
      }
      const subject = new InboxUnderTest(target, target.open(kind))
      for (const way of WAYS) await expectSchemaError(subject.deliver(way, { id: 'x' }))
      expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
    })
  })

  test('a later revision is not migrated; an earlier one is', async () => {
    if (revision === 'later') await expect(target.migrate()).rejects.toThrow(SchemaError)
    else expect((await target.migrate()).length).toBe(1)
  })
})

async function expectSchemaError(promise: Promise<unknown>): Promise<void> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(SchemaError)
  expect(error).toMatchObject({
    code: 'TXBOX_SCHEMA',
    retryable: false,
    message: expect.stringMatching(/npx txbox migrate|upgrade/i),
  })
}
