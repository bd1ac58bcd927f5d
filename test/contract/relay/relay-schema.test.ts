import { describe, expect, test } from 'vitest'
import { SchemaError, createRelay } from '@txbox/relay'
import { Broker } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  outboxOf,
  publishAll,
  publishIn,
  RelayUnderTest,
} from '../../support/subjects/relay-under-test.ts'
import { mainKind, onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

describe('without tables', () => {
  const target = useTarget({ migrated: false })

  onEachRoot(target, (kind) => {
    const root = useRoot(target, kind)

    test('start, drain and publish are refused with a SchemaError that names the command', async () => {
      const subject = new RelayUnderTest(root, new Broker().publisher())
      await expectSchemaError(subject.relay.start())
      await expectSchemaError(subject.relay.drain())
      const transaction = await root.begin()
      await expectSchemaError(outboxOf(root).publish(transaction.tx, { topic: 't', payload: {} }))
      await transaction.rollback()
      await subject.relay.stop()
      await subject.relay.stopped
    })
  })
})

describe('while the tables are created', () => {
  const target = useTarget({ migrated: false })
  const outbox = useOutboxTarget(target, { migrated: false })
  const kind = mainKind(target)
  const root = useRoot(target, kind)

  test('a relay that was started too early can be started again', async () => {
    const broker = new Broker()
    const subject = new RelayUnderTest(root, broker.publisher())
    await expectSchemaError(subject.relay.start())
    await target.migrate()
    const ids = await publishAll(root, messagesOf('a', 2))
    await subject.relay.start()
    await subject.relay.drain()
    expect(broker.ids()).toEqual(ids)
    expect(await outbox.backlog()).toEqual([])
  })

  test('another schema has a separate outbox and separate leases', async () => {
    await target.migrate({ schema: 'Else where' })
    const elsewhere = target.open(kind, { schema: 'Else where' })
    const broker = new Broker()
    const here = await RelayUnderTest.started(root, broker.publisher({ owner: 'here' }), { owner: 'same' })
    const there = await RelayUnderTest.started(elsewhere, broker.publisher({ owner: 'there' }), {
      owner: 'same',
    })
    const ids = [await publishAll(root, messagesOf('a', 2)), await publishAll(elsewhere, messagesOf('a', 2))]
    await broker.received(4)
    await Promise.all([here.relay.stop(), there.relay.stop()])
    expect(here.heard('lease-acquired').length).toBe(16)
    expect(there.heard('lease-acquired').length).toBe(16)
    const got = (owner: string) =>
      broker.log.flatMap((entry) => (entry.owner === owner ? [entry.message.id] : []))
    expect([got('here'), got('there')]).toEqual(ids)
    await elsewhere.close()
  })
})

describe.each(['later', 'earlier'] as const)('with tables of a revision that is %s', (revision) => {
  const target = useTarget()
  const kind = mainKind(target)
  const root = useRoot(target, kind)

  test('start is refused with a SchemaError, and publish writes nothing', async () => {
    await target.pretendRevision(revision)
    const relay = createRelay({ database: root.database, publisher: new Broker().publisher() })
    await expectSchemaError(relay.start())
    await relay.stop()
    const transaction = await root.begin()
    await expectSchemaError(publishIn(root, transaction, messagesOf('a', 1)))
    await transaction.rollback()
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
