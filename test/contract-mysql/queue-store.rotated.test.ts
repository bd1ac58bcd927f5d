import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { MessageToStore, QueueReceipt, QueueMessage } from '@txbox/core/ports'
import { shardOf } from '@txbox/core/internal'
import { keysOfOneShard } from '../support/subjects/keys.ts'
import { QUEUE, QueueStoreUnderTest, messageOf } from '../support/subjects/queue-store-under-test.ts'
import { ISOLATIONS, mainKind, useRoot, useTarget, type OpenTransaction } from '../support/engines/target.ts'

const target = useTarget()
const [KEY, OTHER] = keysOfOneShard(2) as [string, string]
/** Keys of other shards than that of the key 'a'. */
const KEYS = Array.from({ length: 30 }, (_, n) => `k${n}`).filter((key) => shardOf(key) !== shardOf('a'))

const idsOf = (messages: readonly { readonly id: string }[]): string[] => messages.map(({ id }) => id).sort()

/** Lets the visibility timeouts of messages in flight pass. */
async function expire(...messages: readonly QueueReceipt[]): Promise<void> {
  for (const { place } of messages) {
    await target.sql(
      'update txbox_queue set due_at = utc_timestamp(6) - interval 1 second where place = ? and receipt is not null',
      [String(place)],
    )
  }
}

describe.each(ISOLATIONS)('with callers at %s', (isolation) => {
  const root = useRoot(target, mainKind(target), { isolation, max: 6 })
  const open: OpenTransaction[] = []
  let queue: QueueStoreUnderTest

  beforeEach(async () => {
    queue = new QueueStoreUnderTest(root)
    await target.sql('delete from txbox_queue')
  })
  afterEach(async () => {
    for (const transaction of open.splice(0)) await transaction.rollback().catch(() => undefined)
  })

  /** A transaction that is open when another call is made. */
  async function begin(): Promise<OpenTransaction> {
    const transaction = await root.begin()
    open.push(transaction)
    return transaction
  }

  async function sendIn({ tx }: OpenTransaction, ...messages: readonly MessageToStore[]): Promise<void> {
    await queue.ports.queueSender.send(await queue.ports.bind(tx), messages)
  }

  async function settleIn({ tx }: OpenTransaction, ...receipts: QueueReceipt[]): Promise<readonly boolean[]> {
    return queue.store.settle(await queue.ports.bind(tx), receipts)
  }

  /** A call that waits for a lock needs several seconds, and fails then. */
  async function atOnce<R>(work: Promise<R>): Promise<R> {
    const began = performance.now()
    const result = await work
    expect(performance.now() - began).toBeLessThan(2000)
    return result
  }

  /** Leaves a message waiting behind an earlier one of its key. An earlier receive had the waiting message. */
  async function waiting(): Promise<{ first: QueueMessage; second: string; old: QueueMessage }> {
    const sender = await begin()
    await sendIn(sender, messageOf(KEY, { id: 'first' }))
    const [second] = await queue.send(KEY)
    const [old] = await queue.receive()
    await sender.commit()
    await expire(old!)
    const [first, ...others] = await queue.receive()
    expect([first!.id, others]).toEqual(['first', []])
    return { first: first!, second: second!, old: old! }
  }

  test.each(['settled', 'buried by a receive', 'removed by a receive'])(
    'Q13 Q20 a refused settlement in an open transaction delays no receive, and blocks its key no longer: the message before was %s',
    async (how) => {
      const { first, second, old } = await waiting()
      const refused = await begin()
      expect(await settleIn(refused, old)).toEqual([false])
      const [other] = await queue.send(OTHER)
      if (how === 'settled') await queue.store.settle(undefined, [first])
      else await expire(first)
      const received = await atOnce(
        queue.receive({ maxReceives: how.startsWith('buried') ? 1 : 10, remove: how.startsWith('removed') }),
      )
      expect(received.map(({ id }) => id)).toContain(other)
      await refused.rollback()
      expect([...idsOf(received), ...idsOf(await queue.receive())]).toContain(second)
    },
  )

  test("Q13 a receive does not wait for a sender's open transaction", async () => {
    const [id] = await queue.send(KEY)
    const sender = await begin()
    await sendIn(sender, messageOf(KEY), messageOf(OTHER), messageOf(undefined))
    const received = await atOnce(queue.receive())
    expect(idsOf(received)).toEqual([id])
    expect(await atOnce(queue.store.settle(undefined, received))).toEqual([true])
    expect(await atOnce(queue.receive())).toEqual([])
    await sender.commit()
    expect((await queue.receive()).length).toBe(3)
  })

  test("Q8 Q13 a receive does not wait for a handler's open transaction, whose message nobody receives", async () => {
    const [, next] = await queue.send(KEY, KEY, undefined)
    // A receive that has messages returns after a quarter of the timeout.
    const received = await queue.receive({ visibilityTimeoutMs: 1200 })
    const handler = await begin()
    expect(await settleIn(handler, ...received)).toEqual([true, true])
    await target.past(received.at(-1)!.visibleAt)
    const [other] = await queue.send(OTHER)
    expect(idsOf(await atOnce(queue.receive()))).toEqual([other])
    await handler.commit()
    expect(idsOf(await queue.receive())).toEqual([next])
  })

  test("Q13 a sender does not wait for a handler's open transaction", async () => {
    // The handled messages are the last ones of the table: a lock on the gap behind them would keep senders waiting.
    await queue.send(KEY, KEY, OTHER, undefined, undefined)
    const [one, ...others] = (await queue.receive()).toSorted((a, b) => (a.place < b.place ? 1 : -1))
    const handler = await begin()
    expect(await settleIn(handler, one!)).toEqual([true])
    expect(await settleIn(handler, ...others)).toEqual(others.map(() => true))
    const sender = await begin()
    await sender.exec('set session innodb_lock_wait_timeout = 1')
    await sendIn(sender, messageOf(KEY), messageOf('any'), messageOf(undefined))
    await sender.commit()
  })

  test('Q7 of two transactions with one receipt the second waits, and learns that the receipt is not valid', async () => {
    await queue.send(KEY, undefined)
    for (const message of await queue.receive()) {
      const [handler, twin] = [await begin(), await begin()]
      expect(await settleIn(handler, message)).toEqual([true])
      const late = settleIn(twin, message)
      await target.blocked(1)
      await handler.commit()
      expect(await late).toEqual([false])
      await twin.rollback()
    }
    expect(await queue.receive()).toEqual([])
  })

  test('Q7 of two transactions with one receipt the second settles if the first is rolled back', async () => {
    await queue.send(KEY, undefined)
    const received = await queue.receive()
    const [handler, twin] = [await begin(), await begin()]
    expect(await settleIn(handler, ...received)).toEqual([true, true])
    const late = settleIn(twin, ...received)
    await target.blocked(1)
    await handler.rollback()
    expect(await late).toEqual([true, true])
    await twin.commit()
    expect(await queue.receive()).toEqual([])
  })

  test('Q9 of several receipts exactly the valid ones settle their messages', async () => {
    await queue.send('a', 'b', 'c', undefined, undefined, undefined)
    const received = await queue.receive()
    const ordered = received.filter((message) => message.ordered)
    const unordered = received.filter((message) => !message.ordered)
    const wrong = { receipt: '00000000-0000-4000-8000-000000000000' }
    await expire(ordered[0]!, unordered[0]!)
    const receipts = [
      ordered[0]!,
      { ...ordered[1]!, ...wrong },
      ordered[1]!,
      ordered[2]!,
      unordered[0]!,
      unordered[1]!,
      { ...unordered[2]!, ...wrong },
      // Not as the message was received.
      { ...ordered[2]!, ordered: false },
    ]
    const handler = await begin()
    expect((await settleIn(handler, ...receipts)).slice(0, 7)).toEqual([
      false,
      false,
      true,
      true,
      false,
      true,
      false,
    ])
    await handler.commit()
    const [left] = await target.sql(
      "select count(*) as n from txbox_queue where due_at > '1970-01-01' or due_at is null",
    )
    expect(Number(left?.['n'])).toBe(3)
  })

  test('Q3 a key whose message is being handled beyond its timeout is busy, also for a message that was committed late', async () => {
    const late = await begin()
    const first = messageOf(KEY)
    await sendIn(late, first)
    const [second] = await queue.send(KEY)
    const received = await queue.receive()
    expect(idsOf(received)).toEqual([second])
    await expire(...received)
    const handler = await begin()
    // The handler has locked the row, but its receipt has expired: it is told so when it settles.
    await handler.exec('select 1 from txbox_queue where place = ? for update', [String(received[0]!.place)])
    await late.commit()
    expect(await atOnce(queue.receive())).toEqual([])
    await handler.rollback()
    expect(idsOf(await queue.receive())).toEqual([first.id])
  })

  test('Q13 Q20 a handled message that another transaction has locked does not hold its key up', async () => {
    const [, next] = await queue.send(KEY, KEY)
    const received = await queue.receive()
    await queue.store.settle(undefined, received)
    const twin = await begin()
    await twin.exec('select 1 from txbox_queue where place = ? for update', [String(received[0]!.place)])
    const again = await atOnce(queue.receive())
    expect(idsOf(again)).toEqual([next])
    await twin.rollback()
    await queue.store.settle(undefined, again)
    expect(await queue.receive()).toEqual([])
    expect(await target.sql('select * from txbox_queue')).toEqual([])
  })

  test('Q5 extend leaves a message alone that a transaction has settled, and counts it', async () => {
    await queue.send(KEY, undefined)
    const received = await queue.receive()
    const handler = await begin()
    await settleIn(handler, received[0]!)
    const stranger = { ...received[1]!, receipt: '00000000-0000-4000-8000-000000000000' }
    expect(await atOnce(queue.store.extend([...received, stranger], 50_000))).toEqual([true, true, false])
    await expire(received[1]!)
    expect(await queue.store.extend([received[1]!], 50_000)).toEqual([false])
    await handler.commit()
    expect(await queue.store.extend(received, 50_000)).toEqual([false, false])
  })

  test('Q12 a purge does not wait for handlers or senders, and ends', async () => {
    await queue.send(KEY, KEY, OTHER, undefined)
    const received = await queue.receive()
    const held = received.find(({ key }) => key === undefined)!
    const handler = await begin()
    await settleIn(handler, held)
    await expire(...received.filter((message) => message !== held))
    const sender = await begin()
    await sendIn(sender, messageOf(KEY))
    expect(await atOnce(queue.store.purge(QUEUE, 2))).toEqual({ removed: 2, more: true })
    expect(await atOnce(queue.store.purge(QUEUE, 2))).toMatchObject({ removed: 1 })
    expect(await atOnce(queue.store.purge(QUEUE, 2))).toEqual({ removed: 0, more: false })
    await sender.commit()
    await handler.rollback()
    expect((await queue.receive()).length).toBe(1)
  })

  test('Q12 after a purge of the first messages of a key its other messages are received', async () => {
    const ids = await queue.send(KEY, KEY, KEY)
    expect(idsOf(await queue.receive({ remove: true }))).toEqual([ids[0]])
    expect(await queue.store.purge(QUEUE, 1)).toEqual({ removed: 1, more: true })
    expect((await queue.receive()).length).toBe(1)
  })

  test('Q13 messages that transactions have locked hide no other messages, however many are locked', async () => {
    const [last, ...keys] = keysOfOneShard(60) as [string, ...string[]]
    await queue.send(...keys)
    const locked = await queue.receive({ limit: 1000 })
    expect(locked.length).toBe(keys.length)
    await expire(...locked)
    const handler = await begin()
    for (const { place } of locked) {
      await handler.exec('select 1 from txbox_queue where place = ? for update', [String(place)])
    }
    const [id] = await queue.send(last)
    expect(idsOf(await atOnce(queue.receive({ limit: 1 })))).toEqual([id])
    expect(await atOnce(queue.receive())).toEqual([])
    await handler.rollback()
    expect((await queue.receive({ limit: 1000 })).length).toBe(keys.length)
  })

  test('the rows of the shards are added again when they were deleted', async () => {
    await target.sql("delete from txbox_leases where left(name, 6) = 'queue/'")
    await queue.send(KEY, OTHER, 'a', 'b', undefined)
    expect((await queue.receive()).length).toBe(5)
    await target.sql("delete from txbox_leases where name in ('queue/orders/03', 'queue/orders/04')")
    await queue.send(...Array.from({ length: 20 }, (_, n) => `more-${n}`))
    expect((await queue.receive({ limit: 100 })).length).toBe(20)
  })
})

describe('with a shard that fails', () => {
  const root = useRoot(target, mainKind(target), { max: 6 })

  test('Q19 an error in one shard keeps no receive from the messages of the others, and is reported when none is left', async () => {
    const queue = new QueueStoreUnderTest(root)
    await target.sql('delete from txbox_queue')
    await queue.send('a')
    await target.sql(`create trigger refused before update on txbox_queue for each row
      if old.order_key = 'a' then signal sqlstate '45000' set message_text = 'refused by a trigger'; end if`)
    try {
      const ids = await queue.send(...KEYS)
      const received: string[] = []
      for (const _ of ids) received.push(...idsOf(await queue.receive({ limit: 1 })))
      expect(received.toSorted()).toEqual(ids.toSorted())
      await expect(queue.receive()).rejects.toThrow('refused by a trigger')
    } finally {
      await target.sql('drop trigger refused')
    }
  })
})
