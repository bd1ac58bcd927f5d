import { expect, test } from 'vitest'
import { createDeadLetters } from '@txbox/relay'
import { createInbox } from '@txbox/inbox'
import { Broker } from '../support/worlds/broker.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { publishAll, RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, target.kinds[0]!)

test('rows with infinite instants block no other row, and are listed', async () => {
  await publishAll(
    root,
    ['altered', 'beside'].map((id) => ({ topic: 't', key: id, id, payload: {} })),
  )
  await outbox.sql("update txbox.outbox set created_at = 'infinity', headers = '{' where id = 'altered'")
  const broker = new Broker()
  const { relay } = new RelayUnderTest(root, broker.publisher())
  await relay.drain()
  await relay.stop()
  expect(broker.log.map(({ message }) => message.id)).toEqual(['beside'])
  await outbox.sql("update txbox.parked set dead_at = 'infinity', created_at = '-infinity'")
  const [letter] = await createDeadLetters({ database: root.database }).list()
  expect(letter!.deadAt.toISOString()).toBe('9999-12-31T00:00:00.000Z')
})

test('a claim with an infinite instant is a valid claim', async () => {
  const inbox = createInbox({ database: root.database, consumer: 'c' })
  await inbox.run({ id: 'a' }, () => 1)
  await target.sql("update txbox.inbox set processed_at = 'infinity'")
  expect((await inbox.run({ id: 'a' }, () => 1)).status).toBe('duplicate')
})
