import assert from 'node:assert/strict'
import type { Delivery } from '@txbox/core'
import { pause } from '@txbox/core/internal'
import { randomOf } from '../cases/random-of.ts'
import type { SourceDraft } from './source-case.ts'
import { ids, idsOf, sameDeliveries, settlesLate } from './source-trial.ts'

const DELAY_MS = 400
/** The case about leases waits until one is over, twice. */
const LONGEST_LEASE_MS = 5000
/** The clocks of the broker and of this process differ by no more, and timers fire no earlier. */
const CLOCK_MS = 25

/** The rules about the settlement of deliveries. */
export const SETTLEMENTS: readonly SourceDraft[] = [
  {
    rule: 'E1',
    says: 'accepts in one turn settle no delivery that was received earlier',
    check: async (trial) => {
      await trial.subject.send(ids(6))
      const opened = await trial.open()
      const deliveries = await trial.receive(opened, 6)
      const accepted = [0, 1, 3, 5].map((n) => deliveries[n]!)
      await Promise.all(accepted.toReversed().map((each) => each.accept()))
      const back = idsOf(trial.settlesEach ? [deliveries[2]!, deliveries[4]!] : deliveries.slice(2))
      await trial.closesWith(opened, back.length)
      sameDeliveries(await trial.receive(await trial.open(), back.length), back)
    },
  },
  {
    rule: 'E2',
    says: 'what is accepted as recorded is accepted when the source is closed, and nothing else is',
    check: async (trial) => {
      await trial.subject.send(ids(6))
      const opened = await trial.open()
      const deliveries = await trial.receive(opened, 6)
      const [a, b, , d, e, f] = deliveries
      await e!.accept({ recorded: true })
      await Promise.all([a!.accept(), b!.accept({ recorded: true }), d!.accept({ recorded: true })])
      await f!.accept({ recorded: true })
      const back = idsOf(trial.settlesEach ? [deliveries[2]!] : deliveries.slice(2))
      await trial.closesWith(opened, back.length)
      sameDeliveries(await trial.receive(await trial.open(), back.length), back)
    },
  },
  {
    rule: 'E3',
    says: 'of several settlements the first counts, and the source works on',
    check: async (trial) => {
      const opened = await trial.open()
      await trial.subject.send(['a', 'b'])
      const [a, b] = await trial.receive(opened, 2)
      await a!.accept()
      await settlesLate(a!)
      await b!.accept()
      await b!.accept()
      await trial.subject.send(['c'])
      await (await trial.receiveOne(opened)).accept()
      await trial.closesWith(opened, 0)
      await trial.keeps([])
    },
  },
  {
    rule: 'E4',
    says: 'a counted retry comes again, and is counted where the source counts',
    check: async (trial) => {
      const { countsDeliveries } = trial.traits
      const opened = await trial.open()
      await trial.subject.send(['a'])
      const counts: number[] = []
      for (let n = 0; n < 3; n += 1) {
        const delivery = await trial.receiveOne(opened)
        counts.push(delivery.deliveries)
        if (n < 2) await delivery.retry({ delayMs: 0, error: new Error('again'), counted: true })
        else await delivery.accept()
      }
      if (countsDeliveries !== false) assert.deepEqual(counts, [1, 2, 3])
      else if (trial.options.marksRedelivered !== false) assert.deepEqual(counts, [1, 2, 2])
      else assert.equal(counts[0], 1)
      await trial.closesWith(opened, 0)
    },
  },
  {
    rule: 'E5',
    says: 'an uncounted retry and a return by close are not counted',
    appliesTo: ({ traits, countsReturns = false }) => traits.countsDeliveries !== false && !countsReturns,
    check: async (trial) => {
      const opened = await trial.open()
      await trial.subject.send(['a'])
      const first = await trial.receiveOne(opened)
      await first.retry({ delayMs: 0, error: new Error('again'), counted: false })
      const second = await trial.receiveOne(opened)
      await trial.closesWith(opened, 1)
      const again = await trial.open()
      const third = await trial.receiveOne(again)
      assert.deepEqual(
        [first, second, third].map(({ deliveries }) => deliveries),
        [1, 1, 1],
      )
      await third.accept()
      await trial.closesWith(again, 0)
    },
  },
  {
    rule: 'E6',
    says: 'a retry with a delay does not come earlier',
    appliesTo: ({ traits }) => traits.delays,
    check: async (trial) => {
      const opened = await trial.open()
      await trial.subject.send(['a'])
      const first = await trial.receiveOne(opened)
      const began = performance.now()
      await first.retry({ delayMs: DELAY_MS, error: new Error('again'), counted: true })
      const second = await trial.receiveOne(opened)
      const tookMs = performance.now() - began
      assert.ok(tookMs >= DELAY_MS - CLOCK_MS, `the retry came after ${tookMs} ms, not after ${DELAY_MS} ms`)
      await second.accept()
      await trial.closesWith(opened, 0)
    },
  },
  {
    rule: 'E7',
    says: 'a rejected message is kept where it can be found, and does not come again',
    appliesTo: ({ traits }) => traits.keepsRejected,
    check: async (trial) => {
      const opened = await trial.open()
      await trial.subject.send(['a', 'b'])
      const [a, b] = await trial.receive(opened, 2)
      await a!.reject({ error: new Error('never') })
      await b!.accept()
      await trial.closesWith(opened, 0)
      await trial.keeps([a!.message.id])
    },
  },
  {
    rule: 'E8',
    says: 'a lease that is extended lasts; one that is over makes the delivery lost, and the message comes again',
    appliesTo: ({ traits }) => traits.leaseMs !== undefined,
    leftOut: ({ traits: { leaseMs } }) =>
      leaseMs! <= LONGEST_LEASE_MS
        ? undefined
        : `The trait 'leaseMs' is ${leaseMs}, and ${LONGEST_LEASE_MS} at most lets a case wait for the end of a lease.`,
    check: async (trial) => {
      const leaseMs = trial.traits.leaseMs!
      const opened = await trial.open()
      await trial.subject.send(['a', 'b'])
      const kept = await trial.receiveOne(opened)
      const over = await trial.receiveOne(opened)
      const ends = performance.now() + leaseMs * 1.5
      while (performance.now() < ends) {
        await pause(leaseMs / 3)
        await kept.extend!(leaseMs)
      }
      await trial.until(
        () => over.lost.aborted,
        () => 'the delivery whose lease is over is not lost',
      )
      assert.ok(!kept.lost.aborted, 'the delivery whose lease was extended is lost')
      await settlesLate(over)
      const again = await trial.receiveOne(opened)
      assert.equal(again.message.id, over.message.id)
      if (trial.traits.countsDeliveries !== false) assert.equal(again.deliveries, 2)
      await Promise.all([kept.accept(), again.accept()])
      await trial.closesWith(opened, 0)
      await trial.keeps([])
    },
  },
  {
    rule: 'E9',
    says: 'a delivery that is settled in a transaction is accepted by its commit, and unsettled after a rollback',
    needs: ['begin'],
    appliesTo: ({ traits }) => traits.settlesInTransaction,
    check: async (trial) => {
      const opened = await trial.open()
      await trial.subject.send(['a'])
      const delivery = await trial.receiveOne(opened)
      const first = await trial.subject.begin!()
      await delivery.settleIn!(first.tx)
      await first.rollback()
      await delivery.retry({ delayMs: 0, error: new Error('rolled back'), counted: true })
      const again = await trial.receiveOne(opened)
      const second = await trial.subject.begin!()
      await again.settleIn!(second.tx)
      await second.commit()
      again.committed?.()
      await trial.closesWith(opened, 0)
    },
  },
  {
    rule: 'E10',
    says: 'each of 1,000 deliveries ends as its random verdict says',
    check: async (trial) => {
      const { subject, options } = trial
      const sent = ids(1000)
      await subject.send(sent)
      const opened = await trial.open({ prefetch: 50 })
      const random = randomOf(options.seed ?? 4711)
      const ended = { accepted: [] as string[], rejected: [] as string[] }
      const settle = async (delivery: Delivery): Promise<void> => {
        const verdict = random(10)
        if (verdict < 2) {
          await delivery.retry({ delayMs: 0, error: new Error('again'), counted: verdict === 0 })
        } else if (verdict < 4) ended[await trial.ends(delivery)].push(delivery.message.id)
        else {
          await delivery.accept()
          ended.accepted.push(delivery.message.id)
        }
      }
      while (ended.accepted.length + ended.rejected.length < sent.length) {
        const deliveries = await trial.receiveSome(opened, 20)
        await Promise.all(deliveries.map(settle))
      }
      assert.deepEqual([...ended.accepted, ...ended.rejected].toSorted(), sent.toSorted())
      await trial.closesWith(opened, 0)
      await trial.keeps(ended.rejected)
    },
  },
]
