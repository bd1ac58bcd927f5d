import { expect, test } from 'vitest'
import { PermanentError } from '@txbox/core'
import { createDeadLetters, publishEach, type RetryPolicy } from '@txbox/relay'
import { Broker, Gate, holding, refusing, rejected } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, publishIn, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const [bad, good] = keysOfOneShard(2) as [string, string]
const FOR_GOOD = { retryable: false }
const atOnce: RetryPolicy = { attempts: 3, delayMs: () => 1 }
const OUTBOX = target.engine === 'postgres' ? 'txbox.outbox' : 'txbox_outbox'
const REDRIVES = target.engine === 'postgres' ? 'txbox.redrives' : 'txbox_redrives'

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)
  const never = new PermanentError('never')

  test('O5 a final rejection, and the last attempt, make dead letters; the key continues', async () => {
    const ids = await publishAll(root, messagesOf(bad, 4))
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: (call) =>
        call.messages.map((message) => {
          if (message.id === ids[0]) return rejected({ retryable: false, error: never })
          return message.id === ids[2] ? rejected() : call.accept(message)
        }),
    })
    const subject = new RelayUnderTest(root, publisher, { retry: atOnce })
    await subject.relay.start()
    await broker.received(2)
    await subject.hears('dead-lettered', 2)
    await outbox.settled()
    expect(broker.ids()).toEqual([ids[1], ids[3]])
    expect(subject.heard('dead-lettered')).toMatchObject([
      { id: ids[0], topic: 'test', key: bad, attempts: 1, error: never },
      { id: ids[2], topic: 'test', key: bad, attempts: 3 },
    ])
    const letters = await createDeadLetters({ database: root.database }).list()
    expect(letters).toMatchObject([
      {
        id: ids[0],
        topic: 'test',
        key: bad,
        contentType: 'application/json',
        attempts: 1,
        error: never.message,
      },
      { id: ids[2], attempts: 3, error: 'refused' },
    ])
    for (const { createdAt, deadAt } of letters) {
      expect(createdAt.getTime()).toBeLessThanOrEqual(deadAt.getTime())
      expect(Math.abs(deadAt.getTime() - Date.now())).toBeLessThan(60_000)
    }
  })

  test('O5 a dead letter shows the fields of its message, and the error of its last attempt', async () => {
    const given = { topic: 'test', key: bad, type: 'placed', correlationId: 'c-1', contentType: 'text/plain' }
    const [id] = await publishAll(root, [{ ...given, payload: 'text' }])
    const publisher = new Broker().publisher({
      respond: (call) =>
        call.messages.map(({ attempt }) => rejected({ error: new Error(`attempt ${attempt}`) })),
    })
    const subject = await RelayUnderTest.started(root, publisher, { retry: atOnce })
    await subject.hears('dead-lettered')
    const letters = await createDeadLetters({ database: root.database }).list()
    expect(letters).toMatchObject([{ ...given, id, attempts: 3, error: 'attempt 3' }])
  })

  test('O5 drain counts the result of each message', async () => {
    const ids = await publishAll(root, [...messagesOf(bad, 3), ...messagesOf(good, 2)])
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: (call) =>
        call.messages.map((message) => {
          if (message.id === ids[0]) return rejected()
          return message.id === ids[3] ? rejected({ retryable: false }) : call.accept(message)
        }),
    })
    const subject = new RelayUnderTest(root, publisher, { retry: { attempts: 5, delayMs: () => 600_000 } })
    expect(await subject.relay.drain()).toEqual({ published: 1, parked: 3, deadLettered: 1 })
    expect(await outbox.backlogSize()).toBe(3)
  })

  test('O5 a redriven message keeps its id, begins with no attempts, and is published before later messages of its key', async () => {
    const ids = await publishAll(root, messagesOf(bad, 3))
    const broker = new Broker()
    const refused = new Set([ids[0]!, ids[1]!])
    const publisher = broker.publisher({ respond: refusing(refused, FOR_GOOD) })
    const subject = await RelayUnderTest.started(root, publisher, { retry: atOnce })
    await subject.hears('dead-lettered', 2)
    await broker.received(1)
    await subject.relay.stop()

    const dead = createDeadLetters({ database: root.database, by: 'the night shift' })
    refused.clear()
    const late = await publishAll(root, messagesOf(bad, 2, 4))
    expect((await dead.redrive({ key: bad })).map(({ id }) => id)).toEqual(ids.slice(0, 2))
    await RelayUnderTest.started(root, broker.publisher({ owner: 'second' }))
    await broker.received(5)
    await outbox.settled()
    expect(broker.ids()).toEqual([ids[2], ids[0], ids[1], ...late])
    expect(broker.log.at(1)!.message).toMatchObject({ attempt: 1, key: bad })
    expect(await dead.list()).toEqual([])
    // The record stays when the message no longer exists.
    const record = await outbox.sql(`select redriven_by, attempts from ${REDRIVES}`)
    expect(record.map((row) => [row['redriven_by'], Number(row['attempts'])])).toEqual([
      ['the night shift', 1],
      ['the night shift', 1],
    ])
  })

  test('O5 O11 scheduled messages of a key are redriven with it, and the key waits for none of them', async () => {
    const scheduled = { topic: 'test', key: bad, payload: 0, deliverAt: new Date(0) }
    const broker = new Broker()
    const refused = new Set<string>()
    const publisher = broker.publisher({ respond: refusing(refused, FOR_GOOD) })
    const subject = await RelayUnderTest.started(root, publisher)
    const ids: string[] = []
    // One after the other, so that the order of their deaths is known.
    for (const message of [scheduled, ...messagesOf(bad, 2), scheduled]) {
      const open = await root.begin()
      const [id] = await publishIn(root, open, [message])
      refused.add(id!)
      ids.push(id!)
      await open.commit()
      await subject.hears('dead-lettered', ids.length)
    }
    await subject.relay.stop()
    refused.clear()
    const later = await publishAll(root, messagesOf(bad, 1, 3))
    expect((await createDeadLetters({ database: root.database }).redrive({ key: bad })).length).toBe(4)
    await RelayUnderTest.started(root, broker.publisher({ owner: 'second' }))
    await outbox.settled()
    const ordered = [...ids.slice(1, 3), ...later]
    expect(broker.ids().filter((id) => ordered.includes(id))).toEqual(ordered)
    expect([...broker.ids()].sort()).toEqual([...ids, ...later].sort())
  })

  test('O5 O11 a scheduled message that is redriven and refused again blocks no other message', async () => {
    const scheduled = { topic: 'test', key: bad, payload: 0, deliverAt: new Date(0) }
    const refused = new Set(await publishAll(root, [scheduled]))
    const subject = await RelayUnderTest.started(
      root,
      new Broker().publisher({ respond: refusing(refused, FOR_GOOD) }),
    )
    await subject.hears('dead-lettered')
    await subject.relay.stop()
    expect((await createDeadLetters({ database: root.database }).redrive({ key: bad })).length).toBe(1)

    const broker = new Broker()
    const later = { attempts: 5, delayMs: () => 600_000 }
    const again = await RelayUnderTest.started(
      root,
      broker.publisher({ respond: refusing(refused, { retryable: true }) }),
      { retry: later },
    )
    await again.hears('parked')
    const ids = await publishAll(root, messagesOf(bad, 2))
    await broker.received(2)
    expect(broker.ids()).toEqual(ids)
  })

  test('O5 concurrent and repeated redrives put each dead letter back once', async () => {
    const ids = await publishAll(root, messagesOf(undefined, 20))
    const broker = new Broker()
    const refused = new Set(ids)
    const subject = await RelayUnderTest.started(
      root,
      broker.publisher({ respond: refusing(refused, FOR_GOOD) }),
    )
    await subject.hears('dead-lettered', 20)
    refused.clear()
    const dead = createDeadLetters({ database: root.database })
    const touched = await Promise.all([
      ...Array.from({ length: 4 }, () => dead.redrive({ ids })),
      ...Array.from({ length: 4 }, () => dead.redrive({ topic: 'test' })),
    ])
    expect(
      touched
        .flat()
        .map(({ id }) => id)
        .sort(),
    ).toEqual([...ids].sort())
    expect(await dead.redrive({ ids })).toEqual([])
    await broker.received(20)
    await outbox.settled()
    expect(broker.ids().sort()).toEqual([...ids].sort())
  })

  test('O5 a redriven message that dies again is a dead letter again, which names the last person who redrove it', async () => {
    const [id] = await publishAll(root, messagesOf(bad, 1))
    const subject = await RelayUnderTest.started(
      root,
      new Broker().publisher({ respond: refusing(new Set([id!]), FOR_GOOD) }),
    )
    await subject.hears('dead-lettered')
    const dead = createDeadLetters({ database: root.database, by: 'me' })
    expect((await dead.list())[0]).not.toHaveProperty('redriven')
    await dead.redrive({ ids: [id!] })
    await subject.hears('dead-lettered', 2)
    expect(await dead.list()).toMatchObject([{ id, attempts: 1, redriven: { by: 'me' } }])
    const others = createDeadLetters({ database: root.database, by: 'you' })
    expect(await others.redrive({ ids: [id!] })).toMatchObject([{ id, redriven: { by: 'me' } }])
    await subject.hears('dead-lettered', 3)
    expect(await dead.list()).toMatchObject([{ id, redriven: { by: 'you' } }])
    expect(await dead.discard({ ids: [id!] })).toMatchObject([{ id, redriven: { by: 'you' } }])
  })

  test('O3 O5 messages that are redriven one by one in front of a blocked key keep the order of the key', async () => {
    const ids = await publishAll(root, messagesOf(bad, 6))
    const broker = new Broker()
    const refused = new Set(ids.slice(0, 3))
    const publisher = broker.publisher({ respond: refusing(refused, FOR_GOOD) })
    const subject = await RelayUnderTest.started(root, publisher, {
      retry: { attempts: 1000, delayMs: () => 5 },
    })
    await subject.hears('dead-lettered', 3)
    await broker.received(3)
    // Now the next one is refused again and again, and blocks the key.
    let blocked = true
    publisher.respond = (call) =>
      call.messages.map((message) =>
        blocked && message.json<{ n: number }>().n === 7 ? rejected() : call.accept(message),
      )
    const [blocking, ...behind] = await publishAll(root, messagesOf(bad, 3, 7))
    await subject.hears('parked', 2)
    const dead = createDeadLetters({ database: root.database })
    for (const id of [ids[2]!, ids[0]!, ids[1]!]) await dead.redrive({ ids: [id] })
    await broker.received(6)
    blocked = false
    await broker.received(9)
    await outbox.settled()
    // They were redriven while the key was blocked: each is published before messages that were parked later.
    const order = broker.ids()
    expect([...order.slice(3, 6)].sort()).toEqual(ids.slice(0, 3))
    expect(order.slice(6)).toEqual([blocking, ...behind])
    expect(broker.violations).toEqual([])
  })

  test('O5 a redrive while messages of the key are being published never puts two of them in flight, and loses nothing', async () => {
    const [id] = await publishAll(root, messagesOf(bad, 1))
    const broker = new Broker()
    const refused = new Set([id!])
    const publisher = broker.publisher({ respond: refusing(refused, FOR_GOOD) })
    const subject = await RelayUnderTest.started(root, publisher)
    await subject.hears('dead-lettered')
    refused.clear()
    const gate = new Gate()
    publisher.respond = holding(gate)
    const later = await publishAll(root, messagesOf(bad, 3, 2))
    await gate.reached()
    await createDeadLetters({ database: root.database }).redrive({ ids: [id!] })
    gate.open()
    await broker.received(4)
    await outbox.settled()
    expect(new Set(broker.ids())).toEqual(new Set([id, ...later]))
    expect(broker.violations).toEqual([])
  })

  test('O5 O11 an undecodable message becomes a dead letter at once, and affects no other message', async () => {
    const ids = await publishAll(root, messagesOf(bad, 3))
    await outbox.sql(`update ${OUTBOX} set headers = 'no JSON' where id = ?`, [ids[0]])
    const bytes = await publishAll(root, [
      { topic: 'test', key: good, payload: Uint8Array.of(0xff), contentType: 'application/json' },
      ...messagesOf(good, 1),
    ])
    const seen: string[] = []
    const publisher = publishEach((message) => {
      message.json()
      seen.push(message.id)
    })
    const subject = await RelayUnderTest.started(root, publisher)
    await subject.hears('dead-lettered', 2)
    await outbox.settled()
    expect(new Set(seen)).toEqual(new Set([ids[1], ids[2], bytes[1]]))
    const dead = await createDeadLetters({ database: root.database }).list()
    expect(dead.map(({ id }) => id)).toEqual([ids[0], bytes[0]])
    expect(dead[0]!.error).toBe('Its headers are not valid JSON.')
    expect(subject.heard('error')).toEqual([])
  })
})
