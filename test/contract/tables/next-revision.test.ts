import { createRelay } from '@txbox/relay'
import { SchemaError } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { beforeAll, describe, expect, test } from 'vitest'
import { namesOf } from '../../support/engines/migrations.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { Broker } from '../../support/worlds/broker.ts'
import { messagesOf, publishAll } from '../../support/subjects/relay-under-test.ts'

const target = useTarget()
useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const LATEST = namesOf(target).length

async function record(number: number): Promise<void> {
  const table = target.outboxTable.replace(/outbox$/, 'migrations')
  await target.sql(
    `insert into ${table} (number, title, applied_at) values (${number}, 'future', current_timestamp)`,
  )
}

describe('tables of the revision after that of the program', () => {
  beforeAll(() => record(LATEST + 1))

  test('a process of the release before starts again: relay, inbox, outbox, migrate and probes', async () => {
    const broker = new Broker()
    const relay = createRelay({ database: root.database, publisher: broker.publisher() })
    await relay.start()
    const ids = await publishAll(root, messagesOf('k', 2))
    await broker.received(2)
    await relay.stop()
    expect(broker.log.flatMap(({ message }) => message.id)).toEqual(ids)
    expect(await new InboxUnderTest(target, root).process({ id: 'x' })).toMatchObject({ status: 'processed' })
    expect(await target.migrate()).toEqual([])
    await connectedPortsOf('test', root.database).inspection().answers(10_000)
  })

  test('a revision after that one is refused', async () => {
    await record(LATEST + 2)
    await expect(target.migrate()).rejects.toThrow(SchemaError)
    const fresh = target.open(mainKind(target))
    const relay = createRelay({ database: fresh.database, publisher: new Broker().publisher() })
    await expect(relay.start()).rejects.toThrow(
      new RegExp(
        `have revision ${LATEST + 2}.*works with revisions up to ${LATEST + 1}.*Upgrade the package`,
      ),
    )
    await relay.stop()
    await fresh.close()
  })
})
