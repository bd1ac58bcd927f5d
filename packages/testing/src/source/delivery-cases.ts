import assert from 'node:assert/strict'
import type { SourceDraft } from './source-case.ts'
import { ids, idsOf, sameDeliveries } from './source-trial.ts'

/** The rules about deliveries. */
export const DELIVERIES: readonly SourceDraft[] = [
  {
    rule: 'D1',
    says: 'messages are delivered in order where the source has one, and accepted messages do not come again',
    check: async (trial) => {
      const opened = await trial.open()
      await trial.subject.send(['a', 'b', 'c'])
      const deliveries = await trial.receive(opened, 3)
      if (trial.isInOrder) assert.deepEqual(idsOf(deliveries), ['a', 'b', 'c'])
      else sameDeliveries(deliveries, ['a', 'b', 'c'])
      assert.deepEqual(
        deliveries.map((each) => each.deliveries),
        [1, 1, 1],
      )
      assert.ok(
        deliveries.every(({ lost, undecodable }) => !lost.aborted && undecodable === undefined),
        'a delivery is lost or undecodable',
      )
      for (const delivery of deliveries) await delivery.accept()
      await trial.closesWith(opened, 0)
    },
  },
  {
    rule: 'D2',
    says: 'receive resolves with nothing when it is aborted, and loses nothing',
    check: async (trial) => {
      const opened = await trial.open()
      const stop = new AbortController()
      const receiving = opened.receive(1, { signal: stop.signal })
      stop.abort()
      assert.deepEqual(await receiving, [])
      await trial.subject.send(['a'])
      const delivery = await trial.receiveOne(opened)
      assert.equal(delivery.message.id, 'a')
      await delivery.accept()
      await trial.closesWith(opened, 0)
    },
  },
  {
    rule: 'D3',
    says: 'no more deliveries than the prefetch are unsettled, and a settlement makes room for another',
    check: async (trial) => {
      await trial.subject.send(ids(30))
      const opened = await trial.open({ prefetch: 7 })
      const deliveries = await trial.receive(opened, 7)
      await trial.receivesNothing(opened)
      await deliveries[0]!.accept()
      const next = await trial.receiveOne(opened)
      if (trial.isInOrder) assert.equal(next.message.id, 'm7')
      else assert.ok(!idsOf(deliveries).includes(next.message.id), 'a message was delivered twice')
      await trial.closesWith(opened, 29)
    },
  },
  {
    rule: 'D4',
    says: 'the source buffers nothing beyond its prefetch: another consumer receives the rest',
    appliesTo: ({ traits, competes = traits.isExclusive !== true }) => competes,
    check: async (trial) => {
      await trial.subject.send(ids(30))
      const first = await trial.open({ prefetch: 7 })
      const held = await trial.receive(first, 7)
      const second = await trial.open({ prefetch: 30 })
      const rest = await trial.receive(second, 23)
      sameDeliveries([...held, ...rest], ids(30))
      for (const delivery of [...held, ...rest]) await delivery.accept()
      await first.close()
      await trial.closesWith(second, 0)
    },
  },
  {
    rule: 'D5',
    says: 'no message of a key is delivered while another one of the key is unsettled, or waits after a retry',
    appliesTo: ({ traits }) => traits.ordersKeys,
    check: async (trial) => {
      await trial.subject.send(['a', 'b', 'c'], { key: 'k' })
      const opened = await trial.open()
      const first = await trial.receiveOne(opened)
      assert.deepEqual([first.message.id, first.key], ['a', 'k'])
      await trial.receivesNothing(opened)
      await first.retry({ delayMs: 0, error: new Error('again'), counted: true })
      for (const id of ['a', 'b', 'c']) {
        const next = await trial.receiveOne(opened)
        assert.equal(next.message.id, id)
        await next.accept()
      }
      await trial.closesWith(opened, 0)
    },
  },
]
