import { expect, test } from 'vitest'
import { Broker } from '../../support/worlds/broker.ts'
import { cutOffRelay } from '../../support/subjects/cut-off-relay.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
// On MySQL and MariaDB each relay keeps one connection for its leases.
const root = useRoot(target, mainKind(target), { max: 14 })
const KEY = 'k'

test('O16 the first death costs the lease and nothing else: the next relay publishes in batches', async () => {
  const ids = await publishAll(root, messagesOf(KEY, 20))
  await cutOffRelay(root, 1)
  const broker = new Broker()
  const subject = await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
  await broker.received(20)
  await outbox.settled()
  expect(broker.calls.map(({ messages }) => messages.length)).toEqual([20])
  expect(broker.ids()).toEqual(ids)
  expect(subject.heard('parked')).toEqual([])
  // The next death is a first one again, once the relay has seen that all messages are settled.
  await subject.relay.drain()
  await subject.relay.stop()
  await publishAll(root, messagesOf(KEY, 10))
  await cutOffRelay(root, 1)
  const next = new Broker()
  await RelayUnderTest.started(root, next.publisher({ ordering: 'per-key' }))
  await next.received(10)
  expect(next.calls.map(({ messages }) => messages.length)).toEqual([10])
})
