import assert from 'node:assert/strict'
import type { OpenSource } from '@txbox/core'
import { pause, propertyOf } from '@txbox/core/internal'
import { failure } from '../cases/failure.ts'
import type { SourceDraft } from './source-case.ts'
import { ids, idsOf, sameDeliveries, settlesLate, type SourceTrial } from './source-trial.ts'
import type { SourceContractOptions } from './source-under-test.ts'

const NEVER = new AbortController().signal
/** A source that survives a cut has lost nothing after this time. */
const CALM_MS = 200

function survives({ traits, survivesCut = traits.leaseMs !== undefined }: SourceContractOptions): boolean {
  return survivesCut
}

/** The rules about closing, lost connections and outages. */
export const CONNECTIONS: readonly SourceDraft[] = [
  {
    rule: 'L1',
    says: 'close gives the unsettled deliveries back; they are lost, and settling them changes nothing',
    check: async (trial) => {
      await trial.subject.send(ids(10))
      const opened = await trial.open()
      const deliveries = await trial.receive(opened, 10)
      await deliveries[0]!.accept()
      const unsettled = deliveries.slice(1)
      await trial.closesWith(opened, 9)
      assert.ok(
        unsettled.every(({ lost }) => lost.aborted),
        'a delivery is not lost after close',
      )
      for (const delivery of unsettled) await settlesLate(delivery)
      const again = await trial.open()
      const back = await trial.receive(again, 9)
      sameDeliveries(back, idsOf(unsettled))
      for (const delivery of back) await delivery.accept()
      await trial.closesWith(again, 0)
      await trial.keeps([])
    },
  },
  {
    rule: 'L2',
    says: 'a waiting receive rejects when the connection is lost; late settlements change nothing; another open receives again',
    needs: ['network'],
    appliesTo: (options) => !survives(options),
    check: async (trial) => {
      const failures: unknown[] = []
      const opened = await trial.open({ failed: (error) => void failures.push(error) })
      await trial.subject.send(['a', 'b', 'c'])
      const deliveries = await trial.receive(opened, 3)
      const receiving = failure(opened.receive(1, { signal: NEVER }))
      trial.subject.network!.cut()
      await trial.limited(receiving, () => 'receive did not reject')
      assert.ok(failures.length <= 1, `the lost connection was reported ${failures.length} times`)
      // A lease lasts as long as the broker waits, so that only closing ends the deliveries.
      if (trial.traits.leaseMs === undefined) assertLost(deliveries)
      await opened.close()
      assertLost(deliveries)
      const again = await trial.open()
      for (const delivery of deliveries) await settlesLate(delivery)
      const back = await trial.receive(again, 3)
      sameDeliveries(back, ['a', 'b', 'c'])
      if (trial.options.marksRedelivered !== false) {
        assert.ok(
          back.every((each) => each.deliveries >= 2),
          'a redelivered message looks like a new one',
        )
      }
      for (const delivery of back) await delivery.accept()
      await trial.closesWith(again, 0)
      await trial.keeps([])
    },
  },
  {
    rule: 'L3',
    says: 'a lost connection is reported once while no call waits',
    needs: ['network'],
    appliesTo: (options) => !survives(options),
    check: async (trial) => {
      const failures: unknown[] = []
      const opened = await trial.open({ failed: (error) => void failures.push(error) })
      await trial.subject.send(['a'])
      const delivery = await trial.receiveOne(opened)
      trial.subject.network!.cut()
      await trial.until(
        () => failures.length > 0,
        () => 'the lost connection was not reported',
      )
      await opened.close()
      assertLost([delivery])
      assert.equal(failures.length, 1)
    },
  },
  {
    rule: 'L4',
    says: 'deliveries outlive a cut connection, and their settlements count; close gives back the others',
    needs: ['network'],
    appliesTo: survives,
    check: async (trial) => {
      const opened = await trial.open()
      await trial.subject.send(['a', 'b', 'c', 'd'])
      const deliveries = await trial.receive(opened, 4)
      const [a, b, c, d] = deliveries
      trial.subject.network!.cut()
      await pause(CALM_MS)
      assert.ok(!deliveries.some(({ lost }) => lost.aborted), 'a delivery is lost by the cut')
      await a!.accept()
      const rejected = (await trial.ends(b!)) === 'rejected' ? [b!.message.id] : []
      await c!.retry({ delayMs: 0, error: undefined, counted: true })
      const again = await trial.receiveOne(opened)
      assert.equal(again.message.id, c!.message.id)
      if (trial.traits.countsDeliveries !== false) assert.equal(again.deliveries, 2)
      await trial.closesWith(opened, 2)
      assertLost([again, d!])
      for (const delivery of [again, d!]) await settlesLate(delivery)
      const another = await trial.open()
      const back = await trial.receive(another, 2)
      sameDeliveries(back, idsOf([c!, d!]))
      for (const delivery of back) await delivery.accept()
      await trial.closesWith(another, 0)
      await trial.keeps(rejected)
    },
  },
  {
    rule: 'L5',
    says: 'however often connections are cut, each message is accepted at least once, and none is left',
    needs: ['network'],
    check: async (trial) => {
      const sent = ids(300)
      await trial.subject.send(sent)
      const accepted = new Set<string>()
      let opened = await trial.open({ prefetch: 20 })
      for (let cuts = 0; accepted.size < sent.length;) {
        const isCutNow = cuts < 3 && accepted.size >= cuts * 100 + 50
        opened = await acceptSome(trial, opened, accepted, isCutNow)
        if (isCutNow) cuts += 1
      }
      assert.deepEqual([...accepted].toSorted(), sent.toSorted())
      await drain(trial, opened)
    },
  },
  {
    rule: 'L6',
    says: 'opening fails retryably while the broker is unavailable, and works afterwards',
    needs: ['network', 'network.down', 'network.up'],
    check: async (trial) => {
      const network = trial.subject.network!
      await network.down!()
      for (let attempt = 0; attempt < 2; attempt += 1) {
        assert.equal(propertyOf(await failure(trial.open()), 'retryable'), true)
      }
      await network.up!()
      const opened = await trial.open()
      await trial.subject.send(['a'])
      await (await trial.receiveOne(opened)).accept()
      await trial.closesWith(opened, 0)
    },
  },
]

function assertLost(deliveries: readonly { readonly lost: AbortSignal }[]): void {
  assert.ok(
    deliveries.every(({ lost }) => lost.aborted),
    'a delivery of a lost connection is not lost',
  )
}

/** Receives and accepts a few messages, across a cut if one is wanted. @returns the source that is open then */
async function acceptSome(
  trial: SourceTrial,
  opened: OpenSource,
  accepted: Set<string>,
  isCutNow: boolean,
): Promise<OpenSource> {
  try {
    const deliveries = await trial.receiveSome(opened, 10)
    if (isCutNow) trial.subject.network!.cut()
    for (const delivery of deliveries) {
      await delivery.accept()
      // An acceptance that was lost with its connection did not count.
      if (!delivery.lost.aborted) accepted.add(delivery.message.id)
    }
    return opened
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error
    await opened.close()
    return await trial.open({ prefetch: 20 })
  }
}

/** A message whose acceptance was in flight during a cut may be delivered again, and is accepted then. */
async function drain(trial: SourceTrial, opened: OpenSource): Promise<void> {
  let current = opened
  let left = -1
  await trial.until(
    async (signal) => {
      while (!signal.aborted) {
        const rest = await trial.receiveFor(current, CALM_MS)
        if (rest.length === 0) break
        for (const delivery of rest) await delivery.accept()
      }
      await current.close()
      left = await trial.subject.left()
      if (left > 0) current = await trial.open()
      return left === 0
    },
    () => `${left} messages are left after all were accepted`,
  )
}
