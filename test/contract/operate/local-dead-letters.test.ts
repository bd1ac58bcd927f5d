import { describe, expect, test } from 'vitest'
import { InvalidOptionError, type DeadLetter, type DeadLetterFilter } from '@txbox/core'
import type { DeadLetterStore } from '@txbox/core/ports'
import { connectedPortsOf, deadLetterStoreOf } from '@txbox/core/internal'
import { createDeadLetters } from '@txbox/relay'
import { createQueue } from '@txbox/queue'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { useOperatedConsumers } from '../../support/subjects/operated-consumers.ts'

const target = useTarget()
const consumers = useOperatedConsumers(target)
const root = useRoot(target, mainKind(target))
const everything: DeadLetterFilter = {
  ids: undefined,
  topic: undefined,
  type: undefined,
  key: undefined,
  after: undefined,
}

const letters = (): ReturnType<typeof createDeadLetters> =>
  createDeadLetters({ database: root.database, by: 'me' })

function store(): DeadLetterStore {
  return deadLetterStoreOf(connectedPortsOf('test', root.database), undefined)
}

/** A dead letter of the outbox. */
async function deadInOutbox(id: string): Promise<void> {
  await target.sql(
    `insert into ${consumers.table('parked')} (shard, id, topic, content_type, headers, payload, created_at, dead_at, attempts, error)
     values (3, '${id}', 't', 'text/plain', '{}', 'x', ${consumers.ago(100)}, ${consumers.ago(20)}, 3, 'refused')`,
  )
}

function placesOf(found: readonly DeadLetter[]): readonly string[] {
  return found.map(({ consumer = 'outbox', id }) => `${consumer} ${id}`)
}

describe('list', () => {
  test('shows the dead letters of the outbox and of all local consumers in the order of their ids, a page at a time', async () => {
    for (const id of ['b', 'd', '\u{1F4E6}']) await deadInOutbox(id)
    // In UTF-16, the box would come before the last one; the databases compare bytes.
    for (const id of ['a', 'b', 'c', '\uFB01']) await consumers.dead('billing', id, { topic: "'t'" })
    await consumers.dead('mailer', 'b')
    await consumers.parked('mailer', 'alive', { due_at: consumers.ago(1) })
    const order = [
      'billing a',
      'outbox b',
      'billing b',
      'mailer b',
      'billing c',
      'outbox d',
      'billing \uFB01',
      'outbox \u{1F4E6}',
    ]
    expect(placesOf(await letters().list())).toEqual(order)
    for (const limit of [1, 2, 3]) {
      const pages: string[] = []
      for (let after: string | undefined; ;) {
        const page = await letters().list({ limit, after })
        if (page.length === 0) break
        pages.push(...placesOf(page))
        after = page.at(-1)!.id
      }
      expect(pages).toEqual(order)
    }
    expect(placesOf(await letters().list({ limit: 2 }))).toEqual(order.slice(0, 4))
    expect(placesOf(await letters().list({ consumer: 'mailer' }))).toEqual(['mailer b'])
    expect(placesOf(await letters().list({ topic: 't' }))).toEqual(
      order.filter((place) => place !== 'mailer b'),
    )
    expect(await letters().list({ consumer: 'Mailer' })).toEqual([])
  })

  test('a dead letter names its consumer, and has a topic only if the message has one', async () => {
    await consumers.dead('billing', 'a', { key: "'k'", topic: "'t'" })
    await consumers.dead('mailer', 'a')
    const [billing, mailer] = await letters().list()
    expect(billing).toMatchObject({ consumer: 'billing', topic: 't', key: 'k', attempts: 7, error: 'no' })
    expect(mailer).not.toHaveProperty('topic')
    expect(placesOf(await store().newest(everything, 10))).toHaveLength(2)
    expect(await store().payloads('a', false, 10)).toHaveLength(2)
    expect(await store().payloads('a', false, 10, 'mailer')).toHaveLength(1)
    expect(await store().errors('a', false, 10, 'nobody')).toEqual([])
  })

  test('the dead letters of a queue have no consumers, and a wrong consumer is refused', async () => {
    const queue = createQueue({ database: root.database, name: 'q' })
    await expect(queue.deadLetters.list({ consumer: 'billing' })).rejects.toThrow(InvalidOptionError)
    await expect(letters().list({ consumer: '' })).rejects.toThrow(InvalidOptionError)
    await expect(letters().redrive({ consumer: 'x'.repeat(101) })).rejects.toThrow(InvalidOptionError)
    await expect(letters().discard({})).rejects.toThrow(/'consumer' or 'error'/)
  })
})

describe('redrive', () => {
  test('by an id touches only the consumers at which the message is dead, and records each of them', async () => {
    await deadInOutbox('m')
    await consumers.dead('billing', 'm', { topic: "'t'" })
    await consumers.dead('mailer', 'm')
    await consumers.dead('mailer', 'other')
    await consumers.parked('audit', 'm', { due_at: consumers.ago(-600), attempts: '2' })
    expect(placesOf(await letters().redrive({ ids: ['m'], consumer: 'billing' }))).toEqual(['billing m'])
    expect(placesOf(await letters().list())).toEqual(['outbox m', 'mailer m', 'mailer other'])
    const rest = await letters().redrive({ ids: ['m'] })
    expect(placesOf(rest)).toEqual(['outbox m', 'mailer m'])
    // The redrive at one consumer is not that of another one.
    await consumers.dead('billing', 'm')
    expect(await letters().list({ consumer: 'billing' })).toMatchObject([{ redriven: { by: 'me' } }])
    await consumers.dead('audit', 'm')
    expect((await letters().list({ consumer: 'audit' }))[0]).not.toHaveProperty('redriven')
    const records = await target.sql(
      `select consumer, id, topic from ${consumers.table('redrives')} order by redriven_at, consumer`,
    )
    expect(
      records.map(({ consumer, topic }) => [
        consumer === null ? null : (consumer as Buffer | string).toString(),
        String(topic),
      ]),
    ).toEqual([
      ['billing', 't'],
      [null, 't'],
      ['mailer', ''],
    ])
    expect(await consumers.left('local_parked', "attempts = 2 and consumer = 'audit'")).toEqual(['audit m'])
  })

  test('keeps the order of a key at each consumer: the first is due, the others wait behind it', async () => {
    for (const consumer of ['billing', 'mailer']) {
      for (const id of ['a', 'b', 'c']) await consumers.dead(consumer, id, { key: "'k'" })
    }
    await consumers.dead('billing', 'scheduled', { key: "'k'", deliver_at: consumers.ago(50) })
    expect(await letters().redrive({ key: 'k' })).toHaveLength(7)
    expect(await consumers.left('local_parked', `due_at <= ${consumers.ago(0)} and attempts = 0`)).toEqual([
      'billing a',
      'billing scheduled',
      'mailer a',
    ])
    expect(await consumers.left('local_parked', 'due_at is null and order_key is not null')).toEqual([
      'billing b',
      'billing c',
      'mailer b',
      'mailer c',
    ])
    expect(await consumers.left('local_parked', 'redriven_at is null')).toEqual([])
  })

  test('concurrent callers put each dead letter back once, also across pages', async () => {
    for (let n = 0; n < 30; n += 1) await consumers.dead(`c${n % 3}`, `m${n}`)
    const results = await Promise.all([1, 2, 3].map(() => letters().redrive({ type: 'order.placed' })))
    expect(placesOf(results.flat()).toSorted()).toHaveLength(30)
    expect(new Set(placesOf(results.flat())).size).toBe(30)
    const [row] = await target.sql(`select count(*) as n from ${consumers.table('redrives')}`)
    expect(Number(row!['n'])).toBe(30)
  })
})

test('discard deletes dead letters at the selected consumer only', async () => {
  await deadInOutbox('m')
  for (const consumer of ['billing', 'mailer']) await consumers.dead(consumer, 'm')
  expect(placesOf(await letters().discard({ consumer: 'mailer' }))).toEqual(['mailer m'])
  expect(placesOf(await letters().discard({ ids: ['m'] }))).toEqual(['outbox m', 'billing m'])
  expect(await letters().list()).toEqual([])
})

describe('parked messages', () => {
  test('discardParked lets the key of that consumer go on, and leaves dead letters and other consumers', async () => {
    for (const consumer of ['billing', 'mailer']) {
      await consumers.parked(consumer, 'head', {
        key: "'k'",
        order_key: "'k'",
        due_at: consumers.ago(-600),
        attempts: '1',
      })
      await consumers.parked(consumer, 'next', { key: "'k'", order_key: "'k'" })
    }
    await consumers.dead('billing', 'head')
    const found = await store().discardParked({ ...everything, ids: ['head'], consumer: 'billing' }, 10)
    expect(found.messages).toMatchObject([{ consumer: 'billing', id: 'head' }])
    expect(await consumers.left('local_parked', `due_at <= ${consumers.ago(0)}`)).toEqual(['billing next'])
    expect(await consumers.left('local_parked')).toEqual([
      'billing head',
      'billing next',
      'mailer head',
      'mailer next',
    ])
  })

  test('retry makes waiting attempts due now, of the outbox and of local consumers', async () => {
    await consumers.parked('billing', 'a', {
      due_at: consumers.ago(-600),
      attempts: '1',
      error: "'ECONNREFUSED'",
    })
    await consumers.parked('billing', 'unhandled', {
      due_at: consumers.ago(-20),
      unhandled: target.engine === 'postgres' ? 'true' : '1',
    })
    await consumers.parked('mailer', 'later', {
      deliver_at: consumers.ago(-600),
      due_at: consumers.ago(-600),
    })
    await target.sql(
      `insert into ${consumers.table('parked')} (shard, id, topic, content_type, headers, payload, created_at, due_at, attempts)
       values (3, 'p', 't', 'text/plain', '{}', 'x', ${consumers.ago(100)}, ${consumers.ago(-600)}, 3)`,
    )
    const { messages, next } = await store().retry(everything, 10)
    expect([messages.map(({ id }) => id), next]).toEqual([['p', 'a', 'unhandled'], undefined])
    expect(await consumers.left('local_parked', `due_at <= ${consumers.ago(0)}`)).toEqual([
      'billing a',
      'billing unhandled',
    ])
    expect((await store().listParked(everything, 2)).messages.map(({ id }) => id)).toEqual(['p', 'a'])
  })

  test('a message that a handler has locked is neither discarded nor waited for', async () => {
    await consumers.parked('billing', 'held', { due_at: consumers.ago(-600), attempts: '1' })
    await consumers.parked('billing', 'free', { due_at: consumers.ago(-600), attempts: '1' })
    const handler = await root.begin()
    await handler.exec(`select id from ${consumers.table('local_parked')} where id = 'held' for update`)
    try {
      const { messages } = await store().discardParked(everything, 10)
      expect(messages.map(({ id }) => id)).toEqual(['free'])
    } finally {
      await handler.rollback()
    }
  })
})
