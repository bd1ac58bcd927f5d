import { beforeEach, expect, test } from 'vitest'
import type { InspectionStore, Lag, OldestDue } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { createDeadLetters } from '@txbox/relay'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { messagesOf, publishAll } from '../../support/subjects/relay-under-test.ts'

const target = useTarget()
useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const isPostgres = target.engine === 'postgres'

function table(name: string): string {
  return target.outboxTable.replace(/outbox$/, name)
}

function inspection(): InspectionStore {
  return connectedPortsOf('test', root.database).inspection()
}

/** An instant so many seconds ago; a negative number is ahead. */
function ago(seconds: number): string {
  return isPostgres
    ? `clock_timestamp() - ${seconds} * interval '1 second'`
    : `utc_timestamp(6) - interval ${seconds} second`
}

/** Inserts a row as a relay of the release before does, which does not know `redriven_at`. */
async function insert(into: string, id: string, columns: Readonly<Record<string, string>>): Promise<void> {
  const all = { shard: '0', topic: "'t'", content_type: "'text/plain'", headers: "'{}'", ...columns }
  await target.sql(
    `insert into ${table(into)} (id, payload, ${Object.keys(all).join(', ')})
     values ('${id}', 'x', ${Object.values(all).join(', ')})`,
  )
}

async function oldest(): Promise<{ status: OldestDue | undefined; lag: Lag['oldestDue'] }> {
  return { status: (await inspection().status()).oldestDue, lag: (await inspection().lag()).oldestDue }
}

/** The message with its age in whole tens of seconds. */
function about(due: OldestDue | undefined): readonly unknown[] | undefined {
  return due && [due.in, due.topic, due.id, Math.floor(due.ageMs / 10_000) * 10]
}

async function expectOldest(part: OldestDue['in'], id: string, seconds: number): Promise<void> {
  const { status, lag } = await oldest()
  const topic = part === 'queue' ? 'work' : 't'
  expect(about(status)).toEqual([part, topic, id, seconds])
  if (part !== 'queue') expect(about(lag)).toEqual([part, topic, id, seconds])
}

beforeEach(async () => {
  for (const name of ['outbox', 'parked', 'queue']) await target.sql(`delete from ${table(name)}`)
})

test('N1 no message is due: the tables are empty, or contain only future messages, dead letters and handled messages', async () => {
  expect(await oldest()).toEqual({ status: undefined, lag: undefined })
  await insert('parked', 'later', { created_at: ago(900), deliver_at: ago(-900), due_at: ago(-900) })
  await insert('parked', 'dead', { created_at: ago(900), dead_at: ago(500) })
  await insert('queue', 'later', { created_at: ago(900), deliver_at: ago(-900), due_at: ago(-900) })
  await insert('queue', 'dead', { created_at: ago(900), dead_at: ago(500) })
  const epoch = isPostgres ? "timestamptz 'epoch'" : "'1970-01-01'"
  await insert('queue', 'handled', { created_at: ago(900), due_at: epoch })
  expect(await oldest()).toEqual({ status: undefined, lag: undefined })
  expect((await inspection().lag()).parked).toEqual({ count: 0, atLeast: false })
})

test('N1 the oldest due message is found in the backlog, among parked and scheduled messages, and in queues', async () => {
  await publishAll(root, messagesOf('k', 3))
  const { status } = await oldest()
  expect(status).toMatchObject({ in: 'backlog' })
  expect(status!.ageMs).toBeLessThan(10_000)

  await insert('outbox', 'stored', { created_at: ago(105), shard: '3' })
  await expectOldest('backlog', 'stored', 100)
  // A retry, and waiting that is not counted, move `due_at` only.
  await insert('parked', 'retried', { created_at: ago(205), due_at: ago(-30), attempts: '3' })
  await expectOldest('parked', 'retried', 200)
  await insert('parked', 'behind', { created_at: ago(305), order_key: "'k'" })
  await expectOldest('parked', 'behind', 300)
  await insert('parked', 'scheduled', { created_at: ago(9999), deliver_at: ago(405), due_at: ago(-30) })
  await expectOldest('scheduled', 'scheduled', 400)
  const work = { topic: "'work'", attempts: '2' }
  await insert('queue', 'in flight', { ...work, created_at: ago(505), due_at: ago(-30) })
  await expectOldest('queue', 'in flight', 500)
  await insert('queue', 'waiting', { ...work, created_at: ago(605), order_key: "'k'" })
  await expectOldest('queue', 'waiting', 600)
  await insert('queue', 'scheduled', { ...work, created_at: ago(9999), deliver_at: ago(705), due_at: ago(1) })
  await expectOldest('queue', 'scheduled', 700)

  const { parked, backlog } = await inspection().lag()
  expect([parked.count, backlog.count]).toEqual([3, 4])
  expect(about((await oldest()).lag)).toEqual(['scheduled', 't', 'scheduled', 400])
})

test('N1 a message that was put back is due since its redrive, in the outbox and in a queue', async () => {
  await insert('parked', 'dead', { created_at: ago(5000), dead_at: ago(4000) })
  await insert('parked', 'scheduled', { created_at: ago(5000), deliver_at: ago(4500), dead_at: ago(4000) })
  const letters = createDeadLetters({ database: root.database })
  expect(await letters.redrive({ ids: ['dead', 'scheduled'] })).toHaveLength(2)
  const due = (await oldest()).status
  expect(due?.ageMs).toBeLessThan(10_000)
  await target.sql(`delete from ${table('parked')}`)

  const subject = new QueueUnderTest(target, root)
  await subject.send({ id: 'dies' })
  await subject.queue.bury(await subject.receiveOne(), { error: 'no' })
  await subject.sql(`update ${subject.table} set created_at = ${ago(5000)} where topic = ?`)
  expect((await oldest()).status).toBeUndefined()
  const store = connectedPortsOf('test', root.database).deadLetters({
    statementTimeoutMs: 10_000,
    queue: subject.queue.name,
  })
  const everything = { ids: undefined, topic: undefined, type: undefined, key: undefined, after: undefined }
  expect((await store.redrive(everything, 10, 'me')).messages).toHaveLength(1)
  expect((await oldest()).status).toMatchObject({ in: 'queue', topic: subject.queue.name, id: 'dies' })
  expect((await oldest()).status?.ageMs).toBeLessThan(10_000)
})

test('blockedKeys counts all blocked keys, and blockingKeys shows some of them', async () => {
  for (let n = 0; n < 12; n++) {
    await insert('parked', `m${n}`, { created_at: ago(0), due_at: ago(0), order_key: `'k${n}'` })
  }
  await insert('parked', 'behind', { created_at: ago(0), order_key: "'k1'" })
  expect(await inspection().blockedKeys()).toEqual({ count: 12, atLeast: false })
  expect(await inspection().blockingKeys(10)).toHaveLength(10)
})
