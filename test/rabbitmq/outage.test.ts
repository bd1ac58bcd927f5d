import { setTimeout as pause } from 'node:timers/promises'
import { expect, inject, onTestFinished, test } from 'vitest'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { undisturbed } from '../support/worlds/undisturbed.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { useBroker } from './broker-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const broker = useBroker()
const root = useRoot(target, mainKind(target))

const ORDERINGS = ['per-key', 'none'] as const
const OUTAGES = [
  [300, 500],
  [1000, 1000],
  [3000, 2000],
] as const

for (const [n, ordering] of ORDERINGS.entries()) {
  // The quick tier has one outage for each ordering.
  for (const [outageMs, withinMs] of inject('tier') === 'all' ? OUTAGES : [OUTAGES[n]!]) {
    test(`O15 after an outage of ${outageMs} ms the first message is published within ${withinMs} ms, although every shard was publishing (${ordering})`, async () => {
      const between = await UnreliableNetwork.to(broker.address)
      onTestFinished(() => between.close())
      const queue = await broker.queue()
      const inner = broker.publisher({ url: broker.urlAt(between.address), exchange: '' })
      const publisher = { ...inner, ordering, publish: inner.publish.bind(inner) }
      const subject = await RelayUnderTest.started(root, publisher, {
        retry: { attempts: 1, delayMs: () => 1 },
      })
      const send = (count: number): Promise<string[]> =>
        publishAll(
          root,
          messagesOf(undefined, count).map(({ payload }) => ({ topic: queue, payload })),
        )
      await send(64)
      await outbox.settled()

      await between.down()
      const published = subject.heard('published').length
      await send(320)
      await subject.hears('unavailable')
      await pause(outageMs)
      await between.up()
      const { tookMs } = await undisturbed(target, () => subject.hears('published', published + 1))
      expect(tookMs).toBeLessThan(withinMs)
      await outbox.settled()
      // No attempt was counted, or with one attempt all would be dead.
      expect(subject.heard('dead-lettered')).toEqual([])
      expect(new Set(await broker.ids(queue)).size).toBe(384)
    })
  }
}
