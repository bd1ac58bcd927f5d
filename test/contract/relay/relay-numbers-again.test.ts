import { expect, test } from 'vitest'
import { Broker, Gate } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 14 })
const [slow, other] = keysOfOneShard(2) as [string, string]
const table = target.engine === 'postgres' ? 'txbox.outbox' : 'txbox_outbox'

/** Lets the database assign the same numbers again, as after a failover to a standby that was behind. */
async function truncate(): Promise<void> {
  await outbox.sql(`truncate ${table} ${target.engine === 'postgres' ? 'restart identity' : ''}`)
}

test('O14 O3 a message that gets the number of a message that is still in flight is not overtaken', async () => {
  await truncate()
  const broker = new Broker()
  const gate = new Gate()
  const publisher = broker.publisher({
    ordering: 'per-key',
    respond: async (call) => {
      if (call.messages.some(({ key }) => key === slow)) await gate.pass()
      return call.acceptAll()
    },
  })
  await RelayUnderTest.started(root, publisher)
  await publishAll(root, messagesOf(other, 1))
  await broker.received(1)
  await outbox.settled()
  // Its number is 2, and its call outlives the turn.
  await publishAll(root, messagesOf(slow, 1))
  await gate.reached()
  await new Promise((resolve) => setTimeout(resolve, 200))

  await truncate()
  const ids = await publishAll(root, messagesOf(other, 3))
  await until(
    async () => broker.ids(other).includes(ids[2]!),
    () => 'the last message is published',
  )
  gate.open()
  await outbox.settled()
  expect(broker.ids(other).slice(1)).toEqual(ids)
})
