import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Broker } from '../../support/worlds/broker.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { undisturbed } from '../../support/worlds/undisturbed.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
// The database makes no difference.
const root = useRoot(target, mainKind(target))

test('O10 a later stop with a shorter time ends the earlier one', async () => {
  await publishAll(root, messagesOf('a', 1))
  const broker = new Broker()
  const publisher = broker.publisher({ respond: () => new Promise(() => undefined) })
  const subject = await RelayUnderTest.started(root, publisher)
  await until(
    async () => broker.calls.length === 1,
    () => 'the call begins',
  )
  const { tookMs } = await undisturbed(target, async () => {
    const first = subject.relay.stop({ timeoutMs: 30_000 })
    await sleep(50)
    await subject.relay.stop({ timeoutMs: 200 })
    await first
  })
  expect(tookMs).toBeLessThan(800)
  expect(broker.calls[0]!.signal.aborted).toBe(true)
})
