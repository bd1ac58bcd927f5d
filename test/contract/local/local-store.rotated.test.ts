import { expect, test } from 'vitest'
import { LeaseLostError, TransactionAbortedError } from '@txbox/core'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { AT, LocalStoreUnderTest, idsOf, refusal } from '../../support/subjects/local-store-under-test.ts'
import { onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const HOUR_MS = 3_600_000

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
    const other = messages.slice(1).map((message) => ({ ...message, stamp: message.stamp + 1 }))
    const removingOther = local.ports.transact((_tx, session) => local.store.remove(session, AT, other), {})
    await expect(removingOther).rejects.toThrow(TransactionAbortedError)
    expect((await local.handle(other)).locked).toEqual([])
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

  test('L5 a refused message is parked with its errors, those behind it wait, and the key goes on when it is released', async () => {
    const local = await start()
    const ids = await local.publish('k', 'k', 'k', 'l')
    const errors = JSON.stringify([{ at: '2026-01-01T00:00:00.000Z', attempt: 1, error: 'no\0 “é”' }])
    const read = await local.messages()
    await local.park(read.slice(0, 2), { errors, error: 'no\0 “é”' })
    expect((await local.messages()).map(({ id, blocked }) => [id, blocked])).toEqual([
      [ids[2], true],
      [ids[3], false],
    ])
    await local.settle({ behind: [read[2]!] })
    expect(await local.store.work([AT])).toEqual([{ ...AT, waiting: true, due: true }])
    const [head, ...rest] = await local.readDue()
    expect(head).toMatchObject({
      id: ids[0],
      attempts: 1,
      errors,
      stamp: read[0]!.stamp,
      in: 'parked',
      ordered: true,
    })
    expect(rest).toEqual([])
    const handler = await local.handle([head!])
    await handler.commit()
    expect(await local.readDue()).toEqual([])
    await local.store.release(local.lease, AT, ['k', 'other'])
    const onward = await local.readDue()
    expect(idsOf(onward)).toEqual(ids.slice(1, 3))
    await local.settle({ refused: [refusal(onward[0]!, { retryInMs: undefined, attempts: 7 })] })
    await local.store.release(local.lease, AT, ['k'])
    expect(idsOf(await local.readDue())).toEqual([ids[2]])
    expect(await local.parked()).toEqual([
      [ids[1], 'dead', 7],
      [ids[2], 'due', 0],
    ])
  })

  test('L5 a message that is parked behind a head that has gone meanwhile is freed by a second release', async () => {
    const local = await start()
    const ids = await local.publish('k', 'k')
    const read = await local.messages()
    await local.park(read.slice(0, 1))
    const [head] = await local.readDue()
    const handler = await local.handle([head!])
    // Sees the head, which goes before the message is there.
    await handler.commit()
    await local.store.release(local.lease, AT, ['k'])
    await local.settle({ behind: [read[1]!] })
    expect(await local.readDue()).toEqual([])
    await local.store.release(local.lease, AT, ['k'])
    expect(idsOf(await local.readDue())).toEqual([ids[1]])
  })

  test('L5 healing frees keys whose head was deleted, passes over locked rows, and frees no key that waits for its time', async () => {
    const local = await start()
    const ids = await local.publish('k', 'k', 'l', 'l', 'm', 'm', 'n', 'n')
    const read = await local.messages()
    for (const from of [0, 2, 4, 6]) await local.park(read.slice(from, from + 2), { retryInMs: HOUR_MS })
    expect(await local.store.healKeys(local.lease, AT)).toBe(0)
    await outbox.sql(`delete from ${local.table('local_parked')} where id in (?, ?)`, [ids[0], ids[4]])
    expect(await local.store.healKeys(local.lease, AT)).toBe(2)
    expect(await local.store.healKeys(local.lease, AT)).toBe(0)
    expect(idsOf(await local.readDue()).toSorted()).toEqual([ids[1]!, ids[5]!].toSorted())
  })

  test('L4 a due message that comes after another one of its key is put back behind it', async () => {
    const local = await start()
    const ids = await local.publish('k', 'k')
    const read = await local.messages()
    await local.park(read, { retryInMs: HOUR_MS })
    const now = target.engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
    await outbox.sql(`update ${local.table('local_parked')} set due_at = ${now} where id = ?`, [ids[1]])
    expect(await local.readDue()).toEqual([])
    expect((await local.parked()).map(([, state]) => state)).toEqual(['due', 'waits'])
  })

  test('O9 waiting suspects are parked with the messages before them in their keys, and read one by one', async () => {
    const local = await start()
    const ids = await local.publish('k', 'l', 'k', undefined, 'k', 'l')
    const read = await local.messages()
    expect(await local.store.suspect(local.lease, AT, [read[2]!, read[3]!])).toEqual([])
    expect((await local.parked()).map(([id, state]) => [id, state])).toEqual([
      [ids[0], 'due'],
      [ids[2], 'waits'],
      [ids[3], 'due'],
    ])
    expect(idsOf(await local.messages())).toEqual([ids[1], ids[4], ids[5]])
    // A read of the key ends before the suspect.
    const [first, ...rest] = await local.readDue()
    expect([first?.id, rest]).toEqual([ids[0], []])
    const suspect = await local.store.readSuspect(AT, { messages: 1, bytes: 1000 })
    expect(suspect).toMatchObject({ id: ids[3], isSuspect: true, in: 'parked' })
    await local.settle({ accepted: [first!, suspect!] })
    await local.store.release(local.lease, AT, ['k'])
    expect(await local.readDue()).toEqual([])
    const second = await local.store.readSuspect(AT, { messages: 1, bytes: 1000 })
    expect(second?.id).toBe(ids[2])
    await local.settle({ refused: [refusal(second!)] })
    expect(await local.store.readSuspect(AT, { messages: 1, bytes: 1000 })).toBeUndefined()
    expect(idsOf(await local.readDue())).toEqual([ids[2]])
  })

  test('O9 a suspect that a handler has locked stays where it is, and so do those behind it; parked messages become suspects', async () => {
    const local = await start()
    const ids = await local.publish('k', 'k', 'l', 'm')
    const read = await local.messages()
    await local.park(read.slice(3))
    const [parked] = await local.readDue()
    const handler = await local.handle([read[0]!])
    const left = await local.store.suspect(local.lease, AT, [read[1]!, read[2]!, parked!])
    expect(left.map(({ seq }) => seq)).toEqual([read[1]!.seq])
    expect((await local.parked()).map(([id]) => id)).toEqual([ids[3], ids[2]])
    expect(await local.readDue()).toEqual([])
    await handler.rollback()
    expect(await local.store.suspect(local.lease, AT, [read[1]!])).toEqual([])
    expect((await local.parked()).map(([id, state]) => [id, state])).toEqual([
      [ids[3], 'due'],
      [ids[2], 'due'],
      [ids[0], 'due'],
      [ids[1], 'waits'],
    ])
  })

  test('L4 a key is unlocked only if no transaction has locked a waiting or parked message of it', async () => {
    const local = await start()
    await local.publish('k', 'k', 'l', 'l')
    const read = await local.messages()
    await local.park(read.slice(2))
    expect(await local.store.isKeyUnlocked(AT, 'k')).toBe(true)
    const later = await local.handle([read[1]!])
    expect(await local.store.isKeyUnlocked(AT, 'k')).toBe(false)
    expect(await local.store.isKeyUnlocked(AT, 'l')).toBe(true)
    const [head] = await local.readDue()
    const parked = await local.handle([head!])
    expect(await local.store.isKeyUnlocked(AT, 'l')).toBe(false)
    await parked.rollback()
    await later.commit()
    expect(await local.store.isKeyUnlocked(AT, 'k')).toBe(true)
    expect(await local.store.isKeyUnlocked(AT, 'l')).toBe(true)
    expect(await local.store.isKeyUnlocked(AT, 'nothing')).toBe(true)
  })

  test('L6 messages that had no handler are due at once when there is one, and those of other consumers and types are not', async () => {
    const local = await start()
    const ids = await local.publish('k', 'l', 'm')
    const read = await local.messages()
    const how = { retryInMs: HOUR_MS, attempts: 0 }
    await local.settle({
      refused: [refusal(read[0]!, { ...how, unhandled: true }), refusal(read[1]!, how)],
    })
    await local.store.handled(AT.consumer, ['paid'])
    await local.store.handled('mailer', ['made'])
    expect(await local.readDue()).toEqual([])
    await local.store.handled(AT.consumer, ['paid', 'made'])
    const [due, ...rest] = await local.readDue()
    expect([due?.id, rest]).toEqual([ids[0], []])
    await local.settle({ refused: [refusal(due!, { ...how, attempts: 1 })] })
    await local.store.handled(AT.consumer, ['made'])
    expect(await local.readDue()).toEqual([])
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

  test('O9 the note of a crash is part of the lease', async () => {
    const local = await start()
    expect(await local.store.note(local.lease, 'in flight')).toBe(true)
    await outbox.expireLeases()
    expect(await local.store.note(local.lease, 'later')).toBe(false)
    const next = await local.takeLease('b')
    expect(next).toMatchObject({ crashes: 1, inFlight: 'in flight' })
    await local.store.survived(next)
    await local.leases.release([next])
    expect(await local.takeLease('c')).toMatchObject({ crashes: 0, inFlight: undefined })
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
    const subscriptions = local.ports.subscriptions!()
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
