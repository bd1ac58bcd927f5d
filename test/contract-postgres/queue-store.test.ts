import { expect, test } from 'vitest'
import { ReceiveAttemptError, SchemaError } from '@txbox/core'
import type { QueueReceipt, QueueMessage } from '@txbox/core/ports'
import { QUEUE, QueueStoreUnderTest, messageOf } from '../support/subjects/queue-store-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

const start = async (): Promise<QueueStoreUnderTest> => {
  const queue = new QueueStoreUnderTest(root)
  await target.sql('delete from txbox.queue')
  await target.sql('delete from txbox.inbox')
  return queue
}
const idsOf = (messages: readonly QueueMessage[]): readonly string[] => messages.map(({ id }) => id)
/** Ends the visibility timeout of these. */
const expire = (messages: readonly QueueReceipt[]): Promise<unknown> =>
  target.sql(
    `update txbox.queue set due_at = clock_timestamp() - interval '1 second' where place in (${messages.map(({ place }) => String(place)).join(',')})`,
  )

test('Q2 messages of a key come one after the other, and a message that was settled is not received again', async () => {
  const queue = await start()
  const [a1, a2, b1, none] = await queue.send('a', 'a', 'b', undefined)
  const first = await queue.receive()
  expect(new Set(idsOf(first))).toEqual(new Set([a1, b1, none]))
  expect(first[0]!.payload).toEqual(messageOf('a').payload)
  expect(await queue.receive()).toEqual([])
  expect(await queue.store.settle(undefined, first)).toEqual([true, true, true])
  expect(await queue.store.settle(undefined, first)).toEqual([false, false, false])
  expect(idsOf(await queue.receive())).toEqual([a2])
})

test('Q3 the first message of a key waits behind a later message in flight, and comes when the timeout of the later message is over', async () => {
  const queue = await start()
  const late = await root.begin()
  await queue.ports.queueSender.send(await queue.ports.bind(late.tx), [messageOf('a', { id: 'first' })])
  const [second] = await queue.send('a')
  const held = await queue.receive()
  expect(idsOf(held)).toEqual([second])
  await late.commit()
  expect(await queue.receive()).toEqual([])
  await expire(held)
  const [first, ...others] = await queue.receive()
  expect([first!.id, others]).toEqual(['first', []])
  expect(await queue.store.settle(undefined, held)).toEqual([false])
  expect(await queue.store.settle(undefined, [first!])).toEqual([true])
  expect(idsOf(await queue.receive())).toEqual([second])
})

test('Q7 Q8 while the transaction that settles a message is open, no other message of its key is received, even after the timeout', async () => {
  const queue = await start()
  const late = await root.begin()
  await queue.ports.queueSender.send(await queue.ports.bind(late.tx), [messageOf('a', { id: 'first' })])
  await queue.send('a', undefined)
  const held = await queue.receive({ visibilityTimeoutMs: 300 })
  await late.commit()
  const work = await root.begin()
  expect(await queue.store.settle(await queue.ports.bind(work.tx), held)).toEqual([true, true])
  const [row] = await target.sql("select clock_timestamp() + interval '500 ms' as later")
  await target.past(row!['later'] as Date)
  expect(await queue.receive()).toEqual([])
  expect(await queue.store.extend(held, 10_000)).toEqual([false, false])
  await work.commit()
  expect(idsOf(await queue.receive())).toEqual(['first'])
})

test('Q20 a message that is given back without a delay is visible at once', async () => {
  const queue = await start()
  await queue.send('a', undefined)
  const giveback = { delayMs: null as never, error: undefined, counted: true }
  for (const received of await queue.receive()) {
    expect(await queue.store.giveBack(received, giveback)).toBe(true)
  }
  expect(await queue.receive()).toHaveLength(2)
})

test('Q9 a receipt is valid until the message is given back, buried, or visible again', async () => {
  const queue = await start()
  await queue.send('a', 'b', 'c', undefined)
  const received = await queue.receive()
  const [one, two, three, four] = received as [QueueMessage, QueueMessage, QueueMessage, QueueMessage]
  expect(await queue.store.extend(received, 60_000)).toEqual([true, true, true, true])
  const giveback = { delayMs: 60_000, error: 'no\0', counted: false }
  expect(await queue.store.giveBack(one, giveback)).toBe(true)
  expect(await queue.store.bury(QUEUE, two, 'never')).toBe(true)
  expect(await queue.store.extend([three], 0)).toEqual([true])
  await expire([four])
  for (const receipt of received) {
    expect(await queue.store.settle(undefined, [receipt])).toEqual([false])
    expect(await queue.store.extend([receipt], 1000)).toEqual([false])
    expect(await queue.store.giveBack(receipt, giveback)).toBe(false)
    expect(await queue.store.bury(QUEUE, receipt, 'again')).toBe(false)
  }
  const rows = await target.sql(
    'select attempts, error, dead_at is not null as dead from txbox.queue where dead_at is not null or error is not null order by attempts',
  )
  expect(rows).toEqual([
    { attempts: 0, error: 'no\\u{0}', dead: false },
    { attempts: 1, error: 'never', dead: true },
  ])
})

test('Q10 a message that was received too often is a dead letter, and its key continues; the key of a buried message continues too', async () => {
  const queue = await start()
  const [first, second, third] = await queue.send('a', 'a', 'a')
  for (const receives of [1, 2]) {
    const received = await queue.receive({ maxReceives: 2 })
    expect(received.map((message) => [message.id, message.receives])).toEqual([[first, receives]])
    await queue.store.giveBack(received[0]!, { delayMs: 0, error: undefined, counted: true })
  }
  const [next] = await queue.receive({ maxReceives: 2 })
  expect(next!.id).toBe(second)
  expect(await queue.store.bury(QUEUE, next!, 'never')).toBe(true)
  expect(idsOf(await queue.receive())).toEqual([third])

  const letters = queue.ports.deadLetters({ statementTimeoutMs: 10_000, queue: QUEUE })
  const filter = { ids: undefined, topic: undefined, type: undefined, key: undefined, after: undefined }
  const { messages } = await letters.list(filter, 10)
  expect(new Set(messages.map(({ id }) => id))).toEqual(new Set([first, second]))
  expect(messages.every(({ error }) => error !== '')).toBe(true)
  expect((await letters.redrive(filter, 10, 'me')).messages).toHaveLength(2)
  expect((await letters.redrive(filter, 10, 'me')).messages).toEqual([])
  expect(await queue.receive()).toEqual([])
  expect(await letters.payloads(third!, true, 10)).toHaveLength(1)
})

test('Q10 a message whose timeout has passed twice is handed out alone', async () => {
  const queue = await start()
  const [bad] = await queue.send('a', 'b', 'c')
  const all = await queue.receive()
  await queue.store.settle(
    undefined,
    all.filter(({ id }) => id !== bad),
  )
  for (const round of [1, 2]) {
    await target.sql(`update txbox.queue set due_at = clock_timestamp() - interval '1 hour' where id = $1`, [
      bad,
    ])
    if (round === 1) expect((await queue.receive())[0]!.suspect).toBe(false)
  }
  const others = await queue.send('d', undefined, undefined)
  const seen = await Promise.all([queue.receive(), queue.receive(), queue.receive(), queue.receive()])
  const more = [...seen, await queue.receive(), await queue.receive()]
  const answers = more.filter((answer) => answer.length > 0)
  expect(
    answers
      .find((answer) => answer.some(({ id }) => id === bad))!
      .map(({ id, suspect, receives }) => [id, suspect, receives]),
  ).toEqual([[bad, true, 3]])
  expect(new Set(answers.flat().map(({ id }) => id))).toEqual(new Set([bad, ...others]))
})

test('Q12 purge removes what is not in flight, and forgets the ids of the queue', async () => {
  const queue = await start()
  await queue.send('a', 'a', 'a', 'b', 'b', undefined)
  const held = (await queue.receive()).find(({ key }) => key === 'a')
  await target.sql(
    `update txbox.queue set receipt = null, due_at = clock_timestamp() where key is distinct from 'a' and receipt is not null`,
  )
  await target.sql(
    `insert into txbox.inbox (consumer, key, processed_at, expires_at) values ('@queue/${QUEUE}', 'x', now(), now()), ('@queue/other', 'x', now(), now())`,
  )
  await queue.ports.transact(
    async (_, session) =>
      queue.ports.queueSender.send(session, [
        messageOf('a', { deliverAt: new Date(Date.now() + 1e6) }),
        messageOf('a', { topic: 'other' }),
      ]),
    {},
  )
  let removed = 0
  for (let more = true; more;) {
    const step = await queue.store.purge(QUEUE, 2)
    expect(step.removed).toBeLessThanOrEqual(2)
    removed += step.removed
    more = step.more
  }
  expect(removed).toBe(6)
  expect(await target.sql('select topic, id from txbox.queue order by topic')).toMatchObject([
    { topic: QUEUE, id: held!.id },
    { topic: 'other' },
  ])
  expect(await target.sql('select consumer from txbox.inbox')).toEqual([{ consumer: '@queue/other' }])
})

test('Q15 Q16 Q17 a receive is repeated as long as its messages have not changed', async () => {
  const queue = await start()
  const attempt = { id: 'try', retentionMs: 60_000 }
  expect(await queue.receive({ attempt })).toEqual([])
  await queue.send('a', 'b', 'a')
  const first = await queue.receive({ attempt })
  expect(first).toHaveLength(2)
  const again = await queue.receive({ attempt, visibilityTimeoutMs: 50_000 })
  const { visibleAt } = again[0]!
  expect(again.map((message) => ({ ...message, visibleAt }))).toEqual(
    first.map((message) => ({ ...message, visibleAt })),
  )
  expect(again[0]!.visibleAt.getTime()).toBeGreaterThan(first[0]!.visibleAt.getTime() + 15_000)
  const both = await Promise.all([queue.receive({ attempt }), queue.receive({ attempt })])
  expect(idsOf(both[0])).toEqual(idsOf(both[1]))
  expect(await queue.receive({ attempt: { ...attempt, id: 'other' } })).toEqual([])
  await queue.store.extend([first[0]!], 60_000)
  await expect(queue.receive({ attempt })).rejects.toThrow(ReceiveAttemptError)
  await target.sql(`update txbox.inbox set expires_at = clock_timestamp()`)
  await queue.store.settle(undefined, first)
  expect(idsOf(await queue.receive({ attempt }))).toHaveLength(1)
})

test('Q18 a receive with remove leaves no message, and the key continues', async () => {
  const queue = await start()
  const ids = await queue.send('a', 'a', undefined)
  const first = await queue.receive({ remove: true })
  expect(first.every(({ receives }) => receives === 1)).toBe(true)
  expect(new Set(idsOf(first))).toEqual(new Set([ids[0], ids[2]]))
  expect(idsOf(await queue.receive({ remove: true }))).toEqual([ids[1]])
  expect(await target.sql('select * from txbox.queue')).toEqual([])
})

test('Q8 Q13 an expired receipt is withdrawn although its message is beyond the messages at which the receive looks', async () => {
  const queue = await start()
  const late = await root.begin()
  const first = messageOf('a', { id: 'first' })
  await queue.ports.queueSender.send(await queue.ports.bind(late.tx), [first])
  const [second] = await queue.send('a')
  const held = await queue.receive()
  await late.commit()
  await queue.send(...Array.from({ length: 20 }, () => undefined))
  await target.sql(
    `update txbox.queue set shard = ?, due_at = clock_timestamp() - case id when 'first' then interval '3 s' when ? then interval '1 s' else interval '2 s' end`,
    [first.shard, second],
  )
  expect(idsOf(await queue.receive({ limit: 1 }))).toEqual(['first'])
  expect(await queue.store.settle(undefined, held)).toEqual([false])
  expect(
    await target.sql('select receipt, due_at, timeouts from txbox.queue where id = ?', [second]),
  ).toEqual([{ receipt: null, due_at: null, timeouts: 1 }])
})

test('Q10 an answer ends a series of timeouts', async () => {
  const queue = await start()
  await queue.send('a')
  await expire(await queue.receive())
  const [again] = await queue.receive()
  await queue.store.giveBack(again!, { delayMs: 0, error: undefined, counted: true })
  await expire(await queue.receive())
  expect((await queue.receive()).map(({ receives, suspect }) => [receives, suspect])).toEqual([[4, false]])
})

test('Q13 a receive finds the one message behind hundreds that must wait for their key', async () => {
  const queue = await start()
  await queue.send('a')
  await queue.receive()
  await queue.send(...Array.from({ length: 300 }, () => 'a'))
  const other = messageOf('b', { shard: messageOf('a').shard })
  await queue.ports.transact((_, session) => queue.ports.queueSender.send(session, [other]), {})
  expect(idsOf(await queue.receive({ limit: 1 }))).toEqual([other.id])
  expect(await queue.receive()).toEqual([])
})

test('Q4 an error in one shard uses up no receive of a message of another shard', async () => {
  const queue = await start()
  await target.sql(`create function refuse() returns trigger language plpgsql as $$
    begin raise exception 'refused'; end $$`)
  await target.sql(`create trigger refuse before update on txbox.queue for each row
    when (new.order_key = 'refused') execute function refuse()`)
  await queue.send('a', 'refused')
  // The shards are visited in random order.
  let [returned, thrown] = [0, 0]
  while (returned === 0 || thrown === 0) {
    const received = await queue.receive().catch((error: unknown) => error as Error)
    if (received instanceof Error) {
      thrown += 1
      expect(received.message).toContain('refused')
    } else {
      returned += 1
      expect(received.map(({ key }) => key)).toEqual(['a'])
      expect(await queue.store.giveBack(received[0]!, { delayMs: 0, error: undefined, counted: false })).toBe(
        true,
      )
    }
    const [row] = await target.sql(`select attempts, receipt from txbox.queue where order_key = 'a'`)
    expect(row).toEqual({ attempts: 0, receipt: null })
  }
  await target.sql('drop function refuse cascade')
})

test('the rows of the shards are added again when they were deleted', async () => {
  const queue = await start()
  await target.sql("delete from txbox.leases where starts_with(name, 'queue/')")
  await queue.send('a', 'b', 'c', 'd', undefined)
  expect((await queue.receive()).length).toBe(5)
  await target.sql("delete from txbox.leases where name in ('queue/orders/03', 'queue/orders/04')")
  await queue.send(...Array.from({ length: 20 }, (_, n) => `more-${n}`))
  expect((await queue.receive({ limit: 100 })).length).toBe(20)
})

test('a receive reports that the rows of the shards cannot be added', async () => {
  const queue = await start()
  await target.sql(
    `create function ignore() returns trigger language plpgsql as $$ begin return null; end $$`,
  )
  await target.sql(
    `create trigger ignore before insert on txbox.leases for each row execute function ignore()`,
  )
  await target.sql("delete from txbox.leases where starts_with(name, 'queue/')")
  await queue.send('a')
  await expect(queue.receive()).rejects.toThrow(SchemaError)
  await expect(queue.receive()).rejects.toThrow(/rows of the table 'leases'.*cannot be added/)
  await target.sql('drop function ignore cascade')
  expect((await queue.receive()).length).toBe(1)
})
