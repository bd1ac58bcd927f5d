import * as fc from 'fast-check'
import { expect } from 'vitest'
import type { NewQueueMessage } from '@txbox/queue'
import { receiptText } from '../../../packages/queue/src/receipts.ts'
import { alteredQueue, setOf } from '../../support/engines/altered-rows.ts'
import { fuzz } from '../../support/worlds/fuzz.ts'
import { anything, hostileRecord, hostileText, storableText } from '../../support/worlds/hostile-values.ts'
import { QueueUnderTest, idsOf, sortedIds } from '../../support/subjects/queue-under-test.ts'
import { expectPresentable, expectRefusal, outcomeOfAsync } from '../../support/worlds/refusals.ts'
import { useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, target.kinds.find(({ library }) => library !== 'kysely') ?? target.kinds[0]!)

/** Forged receipts: any text, the receipt of another receive, or one with a chosen place. */
const forged = fc.oneof(
  hostileText().map((receipt) => ({ given: { receipt } as unknown })),
  hostileRecord({ receipt: anything() }).map((given: unknown) => ({ given })),
  anything().map((given) => ({ given })),
  fc
    .record({
      place: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
      receipt: fc.uuid(),
      ordered: fc.boolean(),
    })
    .map((stored) => ({ stored })),
)

fuzz(
  'Q9 a receipt that was not given settles nothing',
  25,
  fc.tuple(forged, fc.constantFrom('delete', 'release', 'bury', 'changeVisibility', 'deleteIn')),
  async ([forgery, call]) => {
    const under = new QueueUnderTest(target, root)
    const { queue } = under
    await under.send({ id: 'a', key: 'k' })
    const [received] = await queue.receive()
    // The value that is given may be a proxy that refuses every look at it.
    const receipt =
      'stored' in forgery
        ? { receipt: receiptText(queue.name, { ...forgery.stored, topic: queue.name }) }
        : (forgery.given as never)
    const transaction = await root.begin()
    const outcome = await outcomeOfAsync(() => {
      if (call === 'delete') return queue.delete(receipt)
      if (call === 'deleteIn') return queue.delete(receipt, { tx: transaction.tx })
      if (call === 'release') return queue.release(receipt, { delayMs: 0 })
      if (call === 'bury') return queue.bury(receipt, { error: 'no' })
      return queue.changeVisibility(receipt, 60_000)
    })
    await transaction.commit()
    expect('thrown' in outcome, 'refused').toBe(true)
    if ('thrown' in outcome) expectRefusal(outcome.thrown, 'TXBOX_RECEIPT_EXPIRED')
    expect([await under.size(), await under.visible()], 'the message is still in flight').toEqual([1, 0])
    await queue.delete(received!)
    expect(await under.size()).toBe(0)
  },
)

const attemptId = fc.oneof(
  hostileText(),
  fc.stringMatching(/^[!-~]{1,128}$/),
  fc.constantFrom('a', 'A', "'", '\\', '%', '__proto__', '~'.repeat(128)),
)

fuzz(
  'Q15 a receive of any attempt id is refused, or gives the same messages again',
  20,
  fc.tuple(attemptId, attemptId),
  async ([id, other]) => {
    const under = new QueueUnderTest(target, root)
    await under.send({ id: 'a', key: 'k' }, { id: 'b', key: 'l' })
    const first = await outcomeOfAsync(() => under.receive({ attemptId: id, limit: 1 }))
    if ('thrown' in first) {
      expectRefusal(first.thrown, 'TXBOX_INVALID_OPTION')
      expect(await under.visible()).toBe(2)
      return
    }
    const again = await under.receive({ attemptId: id, limit: 1 })
    expect(again.map(({ receipt }) => receipt)).toEqual(first.result.map(({ receipt }) => receipt))
    const second = await outcomeOfAsync(() => under.receive({ attemptId: other, limit: 1 }))
    if ('thrown' in second) return expectRefusal(second.thrown, 'TXBOX_INVALID_OPTION')
    const isSame = id === other
    expect(idsOf(second.result)[0] === idsOf(first.result)[0], 'ids are compared exactly').toBe(isSame)
  },
)

const deduplicationId = fc.oneof(
  hostileText(),
  fc.stringMatching(/^[!-~]{1,128}$/),
  fc.constantFrom('a', 'A', 'a ', "'", '\\', '%', '0'.repeat(64)),
  anything(),
)

fuzz(
  'of sends with any deduplication id, one is stored for each id, or the send is refused',
  25,
  fc.tuple(deduplicationId, deduplicationId, fc.boolean()),
  async ([id, other, contentBased]) => {
    const under = new QueueUnderTest(target, root, { deduplication: { contentBased } })
    const stored: string[] = []
    const seen = new Set<unknown>()
    for (const [n, deduplicationId] of [id, other, id, other].entries()) {
      const transaction = await root.begin()
      // Another payload each time, so that the content is no duplicate.
      const message = { id: `m${n}`, payload: n, deduplicationId } as NewQueueMessage
      const outcome = await outcomeOfAsync(() => under.queue.send(transaction.tx, message))
      await transaction.commit()
      if ('thrown' in outcome) {
        expectRefusal(outcome.thrown, 'TXBOX_INVALID_MESSAGE')
        expect(typeof deduplicationId === 'string' && /^[!-~]{1,128}$/.test(deduplicationId)).toBe(false)
        continue
      }
      const isNew = typeof deduplicationId !== 'string' || !seen.has(deduplicationId)
      seen.add(deduplicationId)
      expect(outcome.result.duplicate).toBe(!isNew)
      if (isNew) stored.push(`m${n}`)
    }
    expect(sortedIds(await under.drain())).toEqual(stored)
  },
)

const sent = fc.record(
  { key: storableText(), type: storableText(), correlationId: storableText(), payload: fc.json() },
  { requiredKeys: ['payload'] },
)

fuzz(
  'Q2 messages of hostile keys are received in their order, each once',
  12,
  fc.array(sent, { maxLength: 8 }),
  async (messages) => {
    const under = new QueueUnderTest(target, root)
    const ids = await under.sendTogether(messages)
    const keys = new Map(ids.map((id, n) => [id, messages[n]!.key]))
    const received = await under.drain()
    expect(sortedIds(received)).toEqual(sortedIds(ids))
    for (const key of new Set(keys.values())) {
      if (key === undefined) continue
      const ofKey = (id: string): boolean => keys.get(id) === key
      expect(received.filter(ofKey)).toEqual(ids.filter(ofKey))
    }
  },
)

fuzz(
  'a row of the queue that was altered by hand holds up no other key, and no other message is lost',
  15,
  fc.tuple(alteredQueue(target), fc.boolean()),
  async ([altered, isInFlight]) => {
    const under = new QueueUnderTest(target, root, { maxReceives: 3 })
    await under.send(
      { id: 'altered', key: 'a' },
      { id: 'behind', key: 'a' },
      { id: 'beside', key: 'b' },
      { id: 'unkeyed' },
    )
    if (isInFlight) await under.receive()
    const { text, values } = setOf(target, altered)
    const topic = target.engine === 'postgres' ? under.queue.name : Buffer.from(under.queue.name)
    await target.sql(`update ${under.table} set ${text} where topic = ? and id = ?`, [
      ...values,
      topic,
      target.engine === 'postgres' ? 'altered' : Buffer.from('altered'),
    ])
    if (isInFlight) {
      await under.sql(
        `update ${under.table} set due_at = ${target.engine === 'postgres' ? "clock_timestamp() - interval '1 second'" : 'utc_timestamp(6) - interval 1 second'}
         where topic = ? and id in ('beside', 'unkeyed')`,
      )
    }
    const ids: string[] = []
    for (;;) {
      const received = await under.receive({ limit: 10 })
      if (received.length === 0) break
      for (const each of received) {
        ids.push(each.message.id)
        if (each.undecodable !== undefined) expectPresentable(each.undecodable.message)
        await under.queue.delete(each)
      }
    }
    expect(ids).toEqual(expect.arrayContaining(['beside', 'unkeyed']))
    // What was handled may be there as well, as a mark.
    const rows = await under.sql(`select id from ${under.table} where topic = ?`)
    const known = new Set([...ids, ...rows.map(({ id }) => String(id))])
    expect(known.size, `none is lost: ${[...known].join(', ').slice(0, 500)}`).toBe(4)
  },
)
