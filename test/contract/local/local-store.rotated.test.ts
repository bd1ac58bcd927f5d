import { expect, test } from 'vitest'
import { LeaseLostError, TransactionAbortedError } from '@txbox/core'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { AT, LocalStoreUnderTest, idsOf, refusal } from '../../support/subjects/local-store-under-test.ts'
import { onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 6 })
  const start = async (): Promise<LocalStoreUnderTest> => {
    const local = new LocalStoreUnderTest(root, target, outbox)
    await local.takeLease()
    return local
  }

  test('L2 messages are read in the order of their numbers, and only those of one shard of one consumer', async () => {
    const local = await start()
    const ids = await local.publish('k', 'l', undefined, 'k')
    for (const other of [
      { consumer: 'billin' },
      { consumer: 'billing/' },
      { consumer: 'Billing' },
      { shard: 4 },
      { shard: 2 },
    ]) {
      const { text, parameters } = local.insertOf(['k'], other)
      await outbox.sql(text, parameters)
    }
    const { messages } = await local.read()
    expect(idsOf(messages)).toEqual(ids)
    for (const message of messages) {
      expect(message).toMatchObject({
        in: 'waiting',
        isSuspect: false,
        topic: undefined,
        type: 'made',
        blocked: false,
        attempts: 0,
      })
      expect(Number.isSafeInteger(message.stamp)).toBe(true)
    }
    expect(await local.store.work([AT])).toEqual([{ ...AT, waiting: true, due: false }])
    const empty = [
      { consumer: 'nobody', shard: 3 },
      { ...AT, shard: 5 },
    ]
    expect(await local.store.work(empty)).toEqual([])
    const some = await local.store.work([...empty, { consumer: 'billin', shard: 3 }, AT, { ...AT, shard: 4 }])
    expect(some.map(({ consumer, shard }) => `${consumer} ${shard}`).toSorted()).toEqual([
      'billin 3',
      'billing 3',
      'billing 4',
    ])
  })

  test('L1 a row that a handler has locked is skipped by others until the handler ends, and is gone when it commits', async () => {
    const local = await start()
    const ids = await local.publish('k', 'l')
    const messages = await local.messages()
    const first = await local.handle(messages.slice(0, 1))
    expect(first.locked).toEqual([ids[0]])
    const second = await local.handle(messages)
    expect(second.locked).toEqual([ids[1]])
    await first.rollback()
    const third = await local.handle(messages)
    expect(third.locked).toEqual([ids[0]])
    await third.commit()
    await second.commit()
    expect(await local.messages()).toEqual([])
    expect((await local.handle(messages)).locked).toEqual([])
  })

  test('L1 parked and waiting messages are locked and removed together; a dead letter is not locked', async () => {
    const local = await start()
    const ids = await local.publish('k', 'l', 'm', 'n')
    const messages = await local.messages()
    await local.settle({ refused: [refusal(messages[0]!), refusal(messages[1]!)] })
    const due = await local.readDue()
    expect(idsOf(due).toSorted()).toEqual(ids.slice(0, 2).toSorted())
    const all = [...due, ...(await local.messages())]
    await local.settle({
      refused: [
        refusal(
          due.find(({ id }) => id === ids[1])!,
          { retryInMs: undefined },
        ),
      ],
    })
    const handler = await local.handle(all)
    expect(handler.locked.toSorted()).toEqual([ids[0]!, ids[2]!, ids[3]!].toSorted())
    await handler.commit()
    expect(await local.parked()).toEqual([[ids[1], 'dead', 1]])
    expect(await local.messages()).toEqual([])
  })

  test('L1 nothing is locked under a lease that has expired, was taken, or is of another term', async () => {
    const local = await start()
    await local.publish('k')
    const messages = await local.messages()
    const { lease } = local
    expect((await local.handle(messages, { lease: { ...lease, term: lease.term + 1n } })).locked).toEqual([])
    expect((await local.handle(messages, { lease: { ...lease, owner: 'b' } })).locked).toEqual([])
    await outbox.expireLeases()
    expect((await local.handle(messages)).locked).toEqual([])
    await local.takeLease('b')
    expect((await local.handle(messages, { lease })).locked).toEqual([])
    expect((await local.handle(messages)).locked.length).toBe(1)
  })

  test('L1 a handler holds no lock on the lease: the lease is renewed, released and taken while it runs', async () => {
    const local = await start()
    const ids = await local.publish('k')
    const messages = await local.messages()
    const handler = await local.handle(messages)
    expect((await local.leases.renew([local.lease], 60_000)).length).toBe(1)
    await local.leases.release([local.lease])
    await local.takeLease('b')
    expect((await local.handle(messages)).locked).toEqual([])
    await handler.commit()
    expect(handler.locked).toEqual(ids)
    expect(await local.messages()).toEqual([])
  })

  test('L1 a removal of a row that is gone fails, and takes the others of its transaction with it', async () => {
    const local = await start()
    const ids = await local.publish('k', 'l')
    const messages = await local.messages()
    await local.settle({ accepted: messages.slice(0, 1) })
    const removing = local.ports.transact((_tx, session) => local.store.remove(session, AT, messages), {})
    await expect(removing).rejects.toThrow(TransactionAbortedError)
    expect(idsOf(await local.messages())).toEqual(ids.slice(1))
    // The number alone does not name a row.
    const other = messages
      .slice(1)
      .map(({ seq, stamp }) => ({ seq, stamp: stamp + 1, in: 'waiting' as const }))
    const removingOther = local.ports.transact((_tx, session) => local.store.remove(session, AT, other), {})
    await expect(removingOther).rejects.toThrow(TransactionAbortedError)
    const locking = local.ports.transact(
      (_tx, session) => local.store.lock(session, local.lease, AT, other),
      {},
    )
    expect(await locking).toEqual([])
  })

  test('L2 a read leaves out keys, and goes on behind a number that is certain', async () => {
    const local = await start()
    const ids = await local.publish('hot', 'hot', 'k', undefined, 'hot', 'l')
    expect(idsOf((await local.read({ without: ['hot', 'x'] })).messages)).toEqual([ids[2], ids[3], ids[5]])
    expect(idsOf((await local.read({ without: ['hot'], messages: 2 })).messages)).toEqual([ids[2], ids[3]])
    if (target.engine !== 'postgres') {
      // These databases do not show who is writing, so each read begins at the start.
      expect((await local.read({ messages: 2 })).certain).toBeUndefined()
      return
    }
    const seen: string[] = []
    let after: bigint | undefined
    for (let round = 0; round < 20 && seen.length < ids.length; round += 1) {
      const { messages, certain } = await local.read({ after, messages: 2 })
      seen.push(...idsOf(messages).filter((id) => !seen.includes(id)))
      if (certain === undefined) continue
      // Nothing that the read has not returned may be left behind.
      expect(certain <= messages.at(-1)!.seq || messages.length < 2).toBe(true)
      after = certain
    }
    expect(seen).toEqual(ids)
  })

  test('L2 a message with a lower number that commits later is behind no certain number', async () => {
    const local = await start()
    const late = await root.begin()
    const { ids: lateIds, text, parameters } = local.insertOf(['k', 'l'])
    await target.exec(late.tx, text, parameters)
    await local.publish('m', 'n', 'o', 'p')
    const certain: bigint[] = []
    for (let round = 0; round < 4; round += 1) {
      const read = await local.read({ after: certain.at(-1), messages: 2 })
      if (read.certain !== undefined) certain.push(read.certain)
    }
    await late.commit()
    const { messages } = await local.read({ after: certain.at(-1) })
    expect(idsOf(messages)).toEqual(expect.arrayContaining([...lateIds]))
  })

  test('L2 while transactions that publish overlap all the time, reads go on behind what has ended', async () => {
    const local = await start()
    const publishing = [await root.begin()]
    let after: bigint | undefined
    const seen = new Set<string>()
    const all: string[] = []
    for (let round = 0; round < 12; round += 1) {
      const { ids, text, parameters } = local.insertOf(['k', 'l', 'm'])
      all.push(...ids)
      await target.exec(publishing.at(-1)!.tx, text, parameters)
      publishing.push(await root.begin())
      await target.exec(publishing.at(-1)!.tx, ...draw(local))
      await publishing.shift()!.commit()
      const { messages, certain } = await local.read({ after, messages: 2 })
      for (const id of idsOf(messages)) seen.add(id)
      after = certain ?? after
    }
    await publishing.shift()!.commit()
    for (let round = 0; round < 40; round += 1) {
      const { messages, certain } = await local.read({ after, messages: 2 })
      for (const id of idsOf(messages)) seen.add(id)
      after = certain ?? after
    }
    // MySQL and MariaDB may never be certain. Then reads begin at the start, and removal makes room.
    if (target.engine === 'postgres') expect(all.filter((id) => !seen.has(id))).toEqual([])
  })

  test('L4 a settlement leaves alone what a handler has locked, settles the rest, and waits for nobody', async () => {
    const local = await start()
    const ids = await local.publish('k', 'k', 'l', 'm', 'n')
    const messages = await local.messages()
    const handler = await local.handle([messages[0]!, messages[3]!])
    const left = await local.settle({
      accepted: [messages[3]!, messages[4]!],
      refused: [refusal(messages[0]!), refusal(messages[2]!)],
      behind: [messages[1]!],
    })
    // A message must not overtake one of its key on the way to the parked messages.
    expect(left.map(({ seq }) => seq)).toEqual(
      expect.arrayContaining([messages[0]!, messages[1]!, messages[3]!].map(({ seq }) => seq)),
    )
    expect(left.length).toBe(3)
    expect(await local.parked()).toEqual([[ids[2], 'due', 1]])
    await handler.rollback()
    expect(
      await local.settle({
        refused: [refusal(messages[0]!)],
        behind: [messages[1]!],
        accepted: [messages[3]!, messages[4]!],
      }),
    ).toEqual([])
    expect((await local.parked()).map(([id, state]) => [id, state])).toEqual([
      [ids[2], 'due'],
      [ids[0], 'due'],
      [ids[1], 'waits'],
    ])
    expect(await local.messages()).toEqual([])
  })

  test('L4 a settlement under a lost lease changes nothing', async () => {
    const local = await start()
    await local.publish('k', 'l', 'm')
    const messages = await local.messages()
    await local.settle({ refused: [refusal(messages[2]!)] })
    const [due] = await local.readDue()
    const stale = local.lease
    await outbox.expireLeases()
    await local.takeLease('b')
    const settlement = { accepted: messages.slice(0, 1), refused: [refusal(messages[1]!)] }
    await expect(local.settle(settlement, stale)).rejects.toThrow(LeaseLostError)
    await expect(local.settle({ accepted: [due!] }, stale)).rejects.toThrow(LeaseLostError)
    await expect(local.store.release(stale, AT, ['m'])).rejects.toThrow(LeaseLostError)
    await expect(local.store.healKeys(stale, AT)).rejects.toThrow(LeaseLostError)
    await expect(local.store.suspect(stale, AT, messages)).rejects.toThrow(LeaseLostError)
    expect((await local.messages()).length).toBe(2)
    expect((await local.parked()).length).toBe(1)
  })

  test('L8 a settlement skips rows that no longer exist', async () => {
    const local = await start()
    const ids = await local.publish('k', 'k', 'l')
    const read = await local.messages()
    await local.settle({ accepted: read.slice(0, 1) })
    expect(
      await local.settle({ accepted: read.slice(0, 1), refused: [refusal(read[2]!)], behind: [read[1]!] }),
    ).toEqual([])
    expect(await local.settle({ accepted: read, refused: [refusal(read[2]!)] })).toEqual([])
    expect((await local.parked()).map(([id]) => id).toSorted()).toEqual([ids[1]!, ids[2]!].toSorted())
  })

  test('O14 after a TRUNCATE nothing that was remembered is used, and old rows name none of the new ones', async () => {
    const local = await start()
    await local.publish(...Array.from({ length: 8 }, () => 'k'))
    let after: bigint | undefined
    for (let round = 0; round < 3; round += 1) {
      const { messages, certain } = await local.read({ after, messages: 3 })
      await local.settle({ accepted: messages })
      after = certain
    }
    const old = await local.publish('k').then(() => local.messages())
    const { generation } = local.store
    await outbox.sql(
      `truncate ${local.table('local_outbox')} ${target.engine === 'postgres' ? 'restart identity' : ''}`,
    )
    const ids = await local.publish('k', 'l')
    expect(await local.store.work([AT])).toEqual([{ ...AT, waiting: true, due: false }])
    const read = await local.messages()
    expect(idsOf(read)).toEqual(ids)
    if (target.engine === 'postgres') expect(local.store.generation).toBeGreaterThan(generation)
    const named = old.map(({ stamp }) => ({ seq: read[0]!.seq, stamp, in: 'waiting' as const }))
    expect(await local.settle({ accepted: named, refused: [refusal(named[0]!)] })).toEqual([])
    expect(idsOf(await local.messages())).toEqual(ids)
  })

  test('L2 a registration adds what is missing, also when several processes register at once', async () => {
    const local = await start()
    const subscriptions = local.ports.subscriptions()
    expect(await subscriptions.register('billing', ['paid', 'made'])).toEqual(['made', 'paid'])
    expect(await subscriptions.register('billing', ['made', 'sent'])).toEqual(['sent'])
    expect(await subscriptions.register('billing', ['made'])).toEqual([])
    const added = await Promise.all(
      Array.from({ length: 4 }, () => subscriptions.register('mailer', ['made', 'sent'])),
    )
    expect(added.flat().toSorted()).toEqual(['made', 'sent'])
    const all = await subscriptions.list()
    expect(all.map(({ consumer, type }) => `${consumer} ${type}`)).toEqual([
      'billing made',
      'billing paid',
      'billing sent',
      'mailer made',
      'mailer sent',
    ])
    for (const { registeredAt } of all)
      expect(Math.abs(registeredAt.getTime() - (await target.now()).getTime())).toBeLessThan(60_000)
  })
})

/** A statement that draws a number, and stores a message of another consumer. */
function draw(local: LocalStoreUnderTest): [text: string, parameters: readonly unknown[]] {
  const { text, parameters } = local.insertOf(['x'], { consumer: 'other' })
  return [text, parameters]
}
