import { createConnection, type Connection } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { InboxUnderTest } from '../support/subjects/inbox-under-test.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))

async function connected(): Promise<Connection> {
  const connection = await createConnection(outbox.url())
  onTestFinished(() => connection.destroy())
  return connection
}

test('I2 with autocommit off, a call that was not awaited claims nothing after ROLLBACK', async () => {
  const subject = new InboxUnderTest(target, root)
  const connection = await connected()
  await connection.query('set autocommit = 0')
  await subject.inbox.process(connection as never, { id: 'first' }, () => undefined)
  await connection.query('commit')
  // Opens the next transaction.
  await connection.query('select * from counters')
  const late = subject.inbox.process(connection as never, { id: 'late' }, () => undefined)
  const refused = expect(late).rejects.toMatchObject({ code: 'TXBOX_NOT_IN_TRANSACTION' })
  await new Promise<void>((resolve) => process.nextTick(resolve))
  await connection.query('rollback')
  await refused
  await connection.query('commit')
  expect(await subject.claimedKeys()).toEqual(['first'])
  expect(await subject.inbox.process(connection as never, { id: 'third' }, () => undefined)).toMatchObject({
    status: 'processed',
  })
  await connection.query('commit')
  expect(await subject.claimedKeys()).toEqual(['first', 'third'])
})
