import { describe, expect, onTestFinished, test } from 'vitest'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { createGarbageCollector } from '@txbox/gc'
import { sqlDedup, type SqlDedup } from '@txbox/consumer'
import { createIdempotency } from '@txbox/idempotency-key'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { createQueue } from '@txbox/queue'
import { createDeadLetters, createRelay, PermanentError, publishEach } from '@txbox/relay'
import { Broker } from '../../support/worlds/broker.ts'
import { useGarbage } from '../../support/subjects/garbage.ts'
import { ROLES, usePrivilegedUsers, type Role } from '../../support/subjects/privileged-users.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const garbage = useGarbage(target)
const outbox = useOutboxTarget(target)

const users = usePrivilegedUsers(target, outbox)
const onPostgres = target.engine === 'postgres'

const as = (role: Role): ConnectedDatabase<TransactionHandle> => users.as(role)
const sqlAs = (role: Role, text: string): Promise<readonly unknown[]> => users.sqlAs(role, text)

test('the file runs as it is, and runs again: with roles that cannot log in', async () => {
  const named = (role: string): string => `${users.nameOf(role)}_role`
  onTestFinished(async () => {
    for (const role of ROLES) {
      if (onPostgres) await target.sql(`drop owned by ${named(role)}`)
      await target.sql(`drop role ${named(role)}`)
    }
  })
  for (let round = 1; round <= 2; round += 1) await users.run(named, (sql) => sql)
})

function fail(): never {
  throw new Error('The stored response was not replayed.')
}

async function begin(dedup: SqlDedup, key: string): Promise<string> {
  const begun = await dedup.begin({ consumer: 'c', key })
  if (begun.status !== 'won') throw new Error(begun.status)
  return begun.token
}

describe('with the rights of docs/privileges and no others', () => {
  test('a service claims, renews, forgets and publishes, a relay publishes, and a collector collects', async () => {
    const database = as('app')
    const inbox = createInbox({ database, consumer: 'c' })
    const producer = createOutbox({ database, lockKeys: true })
    const deliver = (id: string): Promise<{ status: string }> =>
      inbox.run({ id, payload: 1 }, async (tx) => {
        await target.effect(tx, 'effect')
        await producer.publish(tx, [
          { topic: 't', key: 'k', payload: id },
          { topic: 't', payload: id },
        ])
      })
    expect((await deliver('a')).status).toBe('processed')
    expect((await deliver('a')).status).toBe('duplicate')
    await target.expire('c', 'a')
    expect((await deliver('a')).status).toBe('processed')
    await database.transact(async (tx) => {
      const { outcomes } = await inbox.processBatch(
        tx,
        ['a', 'b'].map((id) => ({ id, payload: 1 })),
        () => undefined,
      )
      expect(outcomes.map(({ status }) => status)).toEqual(['duplicate', 'processed'])
      expect(await inbox.forget(tx, { id: 'b', payload: 1 })).toBe(true)
    })

    const dedup = sqlDedup({ database })
    const [done, released] = [await begin(dedup, 'done'), await begin(dedup, 'released')]
    expect(await dedup.extend(done)).toBe('extended')
    expect(await dedup.complete(done, { retentionMs: 1000 })).toBe('completed')
    expect((await dedup.begin({ consumer: 'c', key: 'done' })).status).toBe('done')
    expect(await dedup.release(released)).toBe('released')

    const broker = new Broker()
    const relay = createRelay({ database: as('relay'), publisher: broker.publisher() })
    expect(await relay.drain()).toMatchObject({ published: 4 })
    await relay.stop()

    await target.expire('c')
    await garbage.park({ id: 'dead', diedAgo: 100 * 86_400 })
    await garbage.redriven({ id: 'dead', ago: 100 * 86_400 })
    await garbage.buffered({ key: 'k', from: 1, diedAgo: 100 * 86_400 })
    await garbage.parkLocal({ id: 'dead', diedAgo: 100 * 86_400 })
    await garbage.removed('c', 100 * 86_400)
    await target.past(new Date((await target.now()).getTime() + 1000))
    const collected = await createGarbageCollector({ database: as('gc') }).runOnce()
    const removed = { inbox: 2, deadLetters: 2, redrives: 2, bufferedDeadLetters: 1 }
    expect(collected).toMatchObject({ ...removed, failures: 0, complete: true })

    const inspection = connectedPortsOf('test', as('viewer')).inspection()
    expect(await inspection.status()).toMatchObject({ backlog: { count: 0 }, lastCollection: { inbox: 2 } })
    expect(await inspection.blockingKeys(5)).toEqual([])
    expect(await inspection.queues(5)).toEqual([])
    expect(await inspection.localConsumers(5)).toEqual([])
    expect(await inspection.stuckKeys(5)).toMatchObject({ keys: [] })
    const findings = await inspection.diagnose({ longTransactionMs: 60_000 })
    expect(findings.filter(({ verdict }) => verdict === 'problem')).toEqual([])
  })

  test('a service handles requests under a lease', async () => {
    const idempotency = createIdempotency({ database: as('app'), name: 'leased' })
    const request = { method: 'POST', path: '/', headers: { 'idempotency-key': 'k' }, body: new Uint8Array() }
    const failing = idempotency.handleLeased(request, () => Promise.reject(new Error('declined')))
    await expect(failing).rejects.toThrow('declined')
    const answers = [
      await idempotency.handleLeased(request, () => ({ status: 201 })),
      await idempotency.handleLeased(request, fail),
    ]
    expect(answers.map(({ status }) => status)).toEqual([201, 201])
  })

  test('a service sends with deduplication, and a collector removes the ids', async () => {
    const database = as('app')
    const producer = createOutbox({ database, deduplication: { contentBased: true } })
    const send = (...messages: readonly object[]): Promise<boolean[]> =>
      database.transact(async (tx) => {
        const news = messages.map((message) => Object.assign({ topic: 'once', payload: 1 }, message))
        return (await producer.publish(tx, news)).map(({ duplicate }) => duplicate)
      })
    expect(await send({ deduplicationId: 'x' }, { deduplicationId: 'y' })).toEqual([false, false])
    expect(await send({}, { deduplicationId: 'x' })).toEqual([false, true])
    // An id that was a duplicate by its content belongs to the next message.
    expect(await send({ deduplicationId: 'z' }, { deduplicationId: 'z', payload: 2 })).toEqual([true, false])
    await target.expire('@publish')
    expect(await send({ deduplicationId: 'x' })).toEqual([false])
    await target.expire('@publish')
    const collected = await createGarbageCollector({ database: as('gc') }).runOnce()
    // Of x, y and z: the last send has removed the claim of the content.
    expect(collected).toMatchObject({ inbox: 3, failures: 0, complete: true })
    await outbox.clear()
  })

  test('a service schedules, a relay parks and buries refused messages, and an operator redrives and discards', async () => {
    const database = as('app')
    await database.transact((tx) =>
      createOutbox({ database }).publish(tx, [
        { topic: 'now', key: 'k', payload: 1 },
        { topic: 'later', payload: 2, deliverAt: new Date(Date.now() + 3_600_000) },
      ]),
    )
    let refusing = true
    const publisher = publishEach(async () => {
      if (refusing) throw new PermanentError('refused')
    })
    const relay = createRelay({ database: as('relay'), publisher })
    expect(await relay.drain()).toMatchObject({ published: 0, deadLettered: 1 })
    const operator = createDeadLetters({ database: as('operator') })
    expect((await operator.redrive({ topic: 'now' })).length).toBe(1)
    refusing = false
    expect(await relay.drain()).toMatchObject({ published: 1 })
    await relay.stop()
    await garbage.park({ id: 'dead', diedAgo: 1 })
    expect((await operator.list()).map(({ id }) => id)).toEqual(['dead'])
    expect((await operator.discard({ ids: ['dead'] })).length).toBe(1)
    expect((await garbage.parkedIds()).length).toBe(1)

    await garbage.park({ id: 'head', key: 'k', dueAgo: 1 }, { id: 'next', key: 'k' })
    const store = connectedPortsOf('test', as('operator')).deadLetters({ statementTimeoutMs: 10_000 })
    const filter = { ids: ['head'], topic: undefined, type: undefined, key: undefined, after: undefined }
    expect((await store.listParked(filter, 10)).messages).toMatchObject([{ id: 'head' }])
    expect((await store.discardParked(filter, 10)).messages).toMatchObject([{ id: 'head' }])
    await expect(store.payloads('next', true, 10)).rejects.toThrow(/denied/)
    const probed = connectedPortsOf('test', as('relay')).inspection()
    expect(await probed.lag()).toMatchObject({ backlog: { count: 0 } })
    await probed.answers(10_000)
  })

  test('a service sends, receives, settles and purges, and an operator redrives and discards messages that a queue has buried', async () => {
    const database = as('app')
    const queue = createQueue({ database, name: 'q', deduplication: {} })
    const messages = [
      { payload: 0, deduplicationId: '0', key: 'a' },
      { payload: 1, deduplicationId: '1', key: 'a' },
      { payload: 2, deduplicationId: '2', key: 'b' },
      { payload: 3, deduplicationId: '3' },
    ]
    await database.transact((tx) => queue.send(tx, messages))
    const received = await queue.receive({ attemptId: 'x' })
    expect(await queue.receive({ attemptId: 'x' })).toHaveLength(3)
    await database.transact((tx) => queue.delete(received[0]!, { tx }))
    await queue.changeVisibility(received[1]!, 60_000)
    await queue.release(received[1]!, { error: 'no' })
    await queue.bury(received[2]!, { error: 'never' })
    for (const again of await queue.receive()) await queue.bury(again, { error: 'never' })

    const operator = connectedPortsOf('test', as('operator'))
    const letters = operator.deadLetters({ statementTimeoutMs: 10_000, queue: 'q' })
    const filter = { ids: undefined, topic: undefined, type: undefined, key: undefined, after: undefined }
    expect((await letters.list(filter, 10)).messages.length).toBeGreaterThan(1)
    expect((await letters.redrive(filter, 1, 'me')).messages).toHaveLength(1)
    expect((await letters.discard(filter, 1)).messages).toHaveLength(1)
    const parked = (await letters.listParked(filter, 10)).messages.length
    expect((await letters.discardParked(filter, 10)).messages).toHaveLength(parked)
    await queue.purge()
    expect(await queue.receive()).toEqual([])
  })

  test('a collector removes the dead letters of a queue, and lets the keys of handled messages go on', async () => {
    const database = as('app')
    const queue = createQueue({ database, name: 'left' })
    await database.transact((tx) =>
      queue.send(tx, [
        { payload: 1, key: 'a' },
        { payload: 2, key: 'a' },
        { payload: 3, key: 'b' },
      ]),
    )
    const [handled, buried] = await queue.receive()
    await queue.delete(handled!)
    await queue.bury(buried!, { error: 'no' })
    const gc = createGarbageCollector({ database: as('gc'), deadLetterRetentionMs: 0 })
    expect(await gc.runOnce()).toMatchObject({ handled: 2, deadLetters: 1, failures: 0, complete: true })
  })

  test('an operator and a viewer read no payload, no headers and no stored result', async () => {
    const table = (name: string): string => `${onPostgres ? 'txbox.' : 'txbox_'}${name}`
    await target.sql(`delete from ${table('parked')}`)
    await garbage.park({ id: 'secret', diedAgo: 1 })
    expect(await sqlAs('operator', `select id, topic, error from ${table('parked')}`)).toHaveLength(1)
    for (const [role, column, of] of [
      ['operator', 'payload', 'parked'],
      ['operator', 'headers', 'parked'],
      ['operator', '*', 'parked'],
      ['operator', 'id', 'outbox'],
      ['viewer', 'payload', 'parked'],
      ['viewer', 'headers', 'parked'],
      ['viewer', 'payload', 'outbox'],
      ['viewer', 'headers', 'outbox'],
      ['viewer', 'result', 'inbox'],
      ['viewer', 'payload', 'waiting'],
      ['operator', 'payload', 'queue'],
      ['viewer', 'headers', 'queue'],
      ['operator', 'payload', 'local_parked'],
      ['operator', 'headers', 'local_outbox'],
      ['viewer', 'payload', 'local_outbox'],
      ['viewer', 'headers', 'local_parked'],
    ] as const) {
      await expect(sqlAs(role, `select ${column} from ${table(of)}`)).rejects.toThrow(/denied/)
    }
    await expect(sqlAs('operator', `update ${table('parked')} set payload = 'x'`)).rejects.toThrow(/denied/)
  })

  if (onPostgres) {
    test('O19 the server cancels a statement for which a relay, a collector or an operator no longer waits', async () => {
      const settings =
        "select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock"
      expect(await sqlAs('relay', settings)).toEqual([{ statement: '15s', lock: '10s' }])
      expect(await sqlAs('gc', settings)).toEqual([{ statement: '1min', lock: '10s' }])
      expect(await sqlAs('operator', settings)).toEqual([{ statement: '1min', lock: '10s' }])
      expect(await sqlAs('viewer', settings)).toEqual([{ statement: '15s', lock: '5s' }])
    })
  }

  if (target.engine === 'mariadb') {
    test('O19 the server accepts the limit that the file recommends for each user', async () => {
      const [recommended] = /alter user .* with max_statement_time 15/.exec(users.file()) ?? []
      await target.sql(recommended!.replace("'shop_relay'@", `'${users.nameOf('relay')}'@`))
      expect(await sqlAs('relay', 'select @@max_statement_time as seconds')).toEqual([{ seconds: 15 }])
    })
  }

  test('each user is refused what belongs to the other users', async () => {
    await garbage.expiredClaims('c', 1)
    await expect(createGarbageCollector({ database: as('relay') }).runOnce()).rejects.toThrow(/denied/)
    await expect(
      createInbox({ database: as('gc'), consumer: 'c' }).run({ id: 'x', payload: 1 }, () => 1),
    ).rejects.toThrow(/denied/)
    await expect(
      as('viewer').transact((tx) =>
        createOutbox({ database: as('viewer') }).publish(tx, { topic: 't', payload: 1 }),
      ),
    ).rejects.toThrow(/denied/)
  })
})
