import { expect, test } from 'vitest'
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
})
