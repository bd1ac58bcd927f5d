import { afterAll, beforeAll, expect, test } from 'vitest'
import { InvalidMessageError, isTxboxError } from '@txbox/core'
import { migrate } from '@txbox/postgres'
import { InboxUnderTest } from '../support/subjects/inbox-under-test.ts'
import { outboxOf } from '../support/subjects/relay-under-test.ts'
import { onEachKind, useTarget, type Root } from '../support/engines/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  let database: string
  let root: Root

  beforeAll(async () => {
    const [row] = await target.sql('select current_database() as name')
    database = `${String(row?.['name'])}_latin1_${target.kinds.indexOf(kind)}`
    await target.sql(
      `create database "${database}" encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`,
    )
    root = target.open(kind, { as: { database } })
    await migrate(root.db)
    await root.database.transact((tx) => target.exec(tx, 'create table public.effects (name text)'))
  })
  afterAll(async () => {
    await root.close()
    await target.sql(`drop database "${database}"`)
  })

  test('K3 O13 text with characters that the encoding of the database lacks is an InvalidMessageError, and nothing is written', async () => {
    const subject = new InboxUnderTest(target, root)
    const outbox = outboxOf(root)
    const euro = '\u20ac'
    for (const attempt of [
      () => subject.inbox.run({ id: euro }, subject.handle),
      () => subject.inbox.run({ id: 'x', correlationId: euro }, subject.handle),
      () => root.database.transact((tx) => subject.inbox.markProcessed(tx, { id: euro })),
      () => root.database.transact((tx) => subject.inbox.processBatch(tx, [{ id: euro }], () => 1)),
      () => root.database.transact((tx) => outbox.publish(tx, { topic: euro, payload: 1 })),
      () => root.database.transact((tx) => outbox.publish(tx, { topic: 't', payload: 1, headers: { euro } })),
    ]) {
      const error: unknown = await attempt().catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(InvalidMessageError)
      expect(isTxboxError(error) && error.retryable).toBe(false)
    }
    expect(subject.calls).toBe(0)
    // Text that the encoding supports is stored unchanged.
    expect(await subject.inbox.run({ id: '\u00fc' }, subject.handle)).toMatchObject({ status: 'processed' })
    expect(await subject.inbox.run({ id: '\u00fc' }, subject.handle)).toMatchObject({ status: 'duplicate' })
  })
})
