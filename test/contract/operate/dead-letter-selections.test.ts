import { beforeEach, describe, expect, test } from 'vitest'
import type { DeadLetterFilter } from '@txbox/core'
import type { DeadLetterStore } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { createDeadLetters } from '@txbox/relay'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'

const target = useTarget()
useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const isPostgres = target.engine === 'postgres'
const everything: DeadLetterFilter = {
  ids: undefined,
  topic: undefined,
  type: undefined,
  key: undefined,
  after: undefined,
}

function table(name: string): string {
  return target.outboxTable.replace(/outbox$/, name)
}

function storeOf(queue?: string): DeadLetterStore {
  const of = queue === undefined ? {} : { queue }
  return connectedPortsOf('test', root.database).deadLetters({ statementTimeoutMs: 10_000, ...of })
}

/** An instant so many seconds ago; a negative number is ahead. */
function ago(seconds: number): string {
  return isPostgres
    ? `clock_timestamp() - ${seconds} * interval '1 second'`
    : `utc_timestamp(6) - interval ${seconds} second`
}

async function insert(into: string, id: string, columns: Readonly<Record<string, string>>): Promise<void> {
  const all = { shard: '0', topic: "'t'", content_type: "'text/plain'", headers: "'{}'", ...columns }
  await target.sql(
    `insert into ${table(into)} (id, payload, created_at, ${Object.keys(all).join(', ')})
     values ('${id}', 'x', ${ago(100)}, ${Object.values(all).join(', ')})`,
  )
}

async function dueNow(from: string): Promise<readonly unknown[]> {
  const rows = await target.sql(
    `select id from ${table(from)} where due_at <= ${ago(0)} and due_at > ${ago(60)} order by id`,
  )
  return rows.map(({ id }) => String(id))
}

beforeEach(async () => {
  for (const name of ['parked', 'queue']) await target.sql(`delete from ${table(name)}`)
})

describe.each([undefined, 't'])('of the queue %s', (queue) => {
  const from = queue === undefined ? 'parked' : 'queue'

  test('newest lists dead letters, the newest first, and an error selects by a part of its text', async () => {
    for (const [n, error] of ["it's 50% _ö_", 'It\\s down', "it's 50% _ö_ again", null].entries()) {
      const text =
        error === null
          ? 'null'
          : `'${error.replaceAll("'", "''").replaceAll('\\', isPostgres ? '\\' : '\\\\')}'`
      await insert(from, `d${n}`, { dead_at: ago(50 - n), error: text })
    }
    await insert(from, 'alive', { due_at: ago(1), error: "'it''s 50%'" })
    const store = storeOf(queue)
    const ids = async (filter: Partial<DeadLetterFilter>, limit = 10): Promise<readonly string[]> =>
      (await store.newest({ ...everything, ...filter }, limit)).map(({ id }) => id)
    expect(await ids({})).toEqual(['d3', 'd2', 'd1', 'd0'])
    expect(await ids({}, 2)).toEqual(['d3', 'd2'])
    expect(await ids({ error: "it's 50% _ö" })).toEqual(['d2', 'd0'])
    expect(await ids({ error: '\\s' })).toEqual(['d1'])
    expect(await ids({ error: "IT'S" })).toEqual([])
    expect((await store.list({ ...everything, error: 'again' }, 10)).messages.map(({ id }) => id)).toEqual([
      'd2',
    ])
    expect((await store.redrive({ ...everything, error: 'again' }, 10, 'me')).messages).toHaveLength(1)
    expect((await store.discard({ ...everything, error: '50%' }, 10)).messages.map(({ id }) => id)).toEqual([
      'd0',
    ])
    expect(await ids({})).toEqual(['d3', 'd1'])
  })

  test('O4 retry makes messages due that wait for their next attempt, and no others', async () => {
    await insert(from, 'waits', { due_at: ago(-300), attempts: '2', order_key: "'k'", error: "'busy'" })
    await insert(from, 'waits too', { due_at: ago(-300), attempts: '2', error: "'gone'" })
    await insert(from, 'behind', { order_key: "'k'" })
    await insert(from, 'scheduled', { due_at: ago(-300), deliver_at: ago(-300) })
    await insert(from, 'dead', { dead_at: ago(1), error: "'busy'" })
    if (queue !== undefined) {
      const receipt = isPostgres ? 'gen_random_uuid()' : "unhex('00112233445566778899aabbccddeeff')"
      await insert(from, 'in flight', { due_at: ago(-300), attempts: '1', receipt })
    }
    const store = storeOf(queue)
    const retried = async (filter: Partial<DeadLetterFilter>): Promise<readonly string[]> =>
      (await store.retry({ ...everything, ...filter }, 10)).messages.map(({ id }) => id)
    expect(await retried({ error: 'busy' })).toEqual(['waits'])
    expect(await dueNow(from)).toEqual(['waits'])
    expect(await retried({})).toEqual(['waits too'])
    expect(await dueNow(from)).toEqual(['waits', 'waits too'])
    expect(await retried({})).toEqual([])
  })
})

test('createDeadLetters selects by a part of the error', async () => {
  await insert('parked', 'a', { dead_at: ago(1), error: "'no route'" })
  await insert('parked', 'b', { dead_at: ago(1), error: "'too large'" })
  const letters = createDeadLetters({ database: root.database })
  expect((await letters.list({ error: 'route' })).map(({ id }) => id)).toEqual(['a'])
  expect((await letters.discard({ error: 'large' })).map(({ id }) => id)).toEqual(['b'])
})

test('a queue is known by its messages, its dead letters, or its receivers', async () => {
  const inspection = connectedPortsOf('test', root.database).inspection()
  const subject = new QueueUnderTest(target, root)
  expect(await inspection.hasQueue(subject.queue.name)).toBe(false)
  await insert('queue', 'dead', { topic: "'only dead'", dead_at: ago(1) })
  expect(await inspection.hasQueue('only dead')).toBe(true)
  await subject.send({ key: 'k' })
  expect(await inspection.hasQueue(subject.queue.name)).toBe(true)
  await subject.drain()
  await subject.sql(`delete from ${subject.table} where topic = ?`)
  expect(await inspection.hasQueue(subject.queue.name)).toBe(true)
})

test('status counts few claims exactly', async () => {
  const inspection = connectedPortsOf('test', root.database).inspection()
  const key = isPostgres ? 'key' : '`key`'
  await target.sql(
    `insert into ${table('inbox')} (consumer, ${key}, processed_at, expires_at) values ('c', 'a', ${ago(1)}, ${ago(-9)}), ('c', 'b', ${ago(1)}, ${ago(-9)})`,
  )
  expect(await inspection.status()).toMatchObject({ claims: 2, claimsAreExact: true })
})
