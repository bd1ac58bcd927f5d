import { expect, test } from 'vitest'
import type { Finding, InspectionStore } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { useOperatedConsumers } from '../../support/subjects/operated-consumers.ts'

const target = useTarget()
const consumers = useOperatedConsumers(target)
const root = useRoot(target, mainKind(target))
const yes = target.engine === 'postgres' ? 'true' : '1'

function inspection(): InspectionStore {
  return connectedPortsOf('test', root.database).inspection()
}

const count = (n: number): object => ({ count: n, atLeast: false })

test('there are no local consumers without rows, and no message is due', async () => {
  expect(await inspection().localConsumers(10)).toEqual([])
  expect((await inspection().status()).oldestDue).toBeUndefined()
})

test('each consumer that has a row of any kind is found, with its figures', async () => {
  await consumers.subscribe('a', 'order.placed', 'order.paid')
  for (const id of ['1', '2', '3']) await consumers.waiting('b', id, { shard: id })
  await consumers.parked('b', 'p', { due_at: consumers.ago(-5) })
  await consumers.parked('b', 'behind', { key: "'k'", order_key: "'k'" })
  await consumers.parked('b', 'later', { deliver_at: consumers.ago(-500), due_at: consumers.ago(-500) })
  await consumers.dead('c', 'd')
  await consumers.parked('d', 'x', { unhandled: yes, type: "'old'", due_at: consumers.ago(-5) })
  await consumers.parked('d', 'y', { unhandled: yes, type: "'older'", due_at: consumers.ago(-5) })
  await consumers.parked('d', 'z', { unhandled: yes, type: "'old'", due_at: consumers.ago(-5) })
  const found = await inspection().localConsumers(10)
  expect(found.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd'])
  const [a, b, c, d] = found
  expect(a).toMatchObject({
    types: ['order.paid', 'order.placed'],
    waiting: count(0),
    dead: count(0),
    unhandled: [],
  })
  expect(a!.oldestDue).toBeUndefined()
  expect(b).toMatchObject({
    types: [],
    waiting: count(3),
    parked: count(2),
    scheduled: count(1),
    dead: count(0),
  })
  expect(c).toMatchObject({ waiting: count(0), parked: count(0), dead: count(1) })
  expect(c!.oldestDue).toBeUndefined()
  expect(d).toMatchObject({ parked: count(3), unhandled: ['old', 'older'] })
  expect((await inspection().localConsumers(2)).map(({ name }) => name)).toEqual(['a', 'b'])
})

test('a consumer runs if a process has said so under its whole name, until that expires', async () => {
  for (const name of ['a', 'a/b', 'b']) await consumers.subscribe(name, 't')
  await consumers.runs('a/b', 'host/1')
  const running = async (): Promise<readonly string[]> =>
    (await inspection().localConsumers(10)).filter(({ runsNow }) => runsNow).map(({ name }) => name)
  expect(await running()).toEqual(['a/b'])
  await consumers.runs('b')
  expect(await running()).toEqual(['a/b', 'b'])
  await target.sql(`update ${consumers.table('leases')} set expires_at = ${consumers.ago(1)}`)
  expect(await running()).toEqual([])
  expect((await inspection().status()).leases).toEqual([])
})

test('N1 the message that has been due the longest is found at each consumer and over all of them', async () => {
  await consumers.waiting('a', 'waits', { created_at: consumers.ago(200), topic: "'t'" })
  await consumers.waiting('b', 'newer', { created_at: consumers.ago(20), shard: '0' })
  await consumers.parked('b', 'retried', {
    created_at: consumers.ago(300),
    due_at: consumers.ago(-50),
    attempts: '3',
  })
  await consumers.parked('c', 'future', {
    created_at: consumers.ago(900),
    deliver_at: consumers.ago(-900),
    due_at: consumers.ago(-900),
  })
  await consumers.dead('c', 'dead', { created_at: consumers.ago(900) })
  const found = await inspection().localConsumers(10)
  const oldest = found.map(
    ({ oldestDue }) => oldestDue && [oldestDue.id, Math.floor(oldestDue.ageMs / 10_000) * 10],
  )
  expect(oldest).toEqual([['waits', 200], ['retried', 300], undefined])
  expect(found[0]!.oldestDue).toMatchObject({ in: 'local', topic: 't', consumer: 'a' })
  const { oldestDue } = await inspection().status()
  expect(oldestDue).toMatchObject({ in: 'local', id: 'retried', consumer: 'b' })
  expect(oldestDue).not.toHaveProperty('topic')
  // The lag is that of the relay.
  expect((await inspection().lag()).oldestDue).toBeUndefined()
})

/** What is wrong, the check that finds it, and how it is made wrong and right again. */
const SICKNESSES: readonly (readonly [string, string, hurt: string, heal: string, expected: RegExp])[] =
  target.engine === 'postgres'
    ? [
        ...['due', 'order', 'unhandled', 'dead', 'due_since'].map(
          (name) =>
            [
              `index local_parked_${name}`,
              'indexes',
              `alter index txbox.local_parked_${name} rename to hidden`,
              `alter index txbox.hidden rename to local_parked_${name}`,
              new RegExp(`missing or invalid: local_parked_${name}$`),
            ] as const,
        ),
        [
          'collation of a consumer',
          'collations',
          'alter table txbox.subscriptions alter consumer type text collate "und-x-icu"',
          'alter table txbox.subscriptions alter consumer type text collate "C"',
          /subscriptions\.consumer has collation/,
        ],
        [
          'sequence of numbers',
          'order',
          'alter sequence txbox.local_outbox_seq cache 50',
          'alter sequence txbox.local_outbox_seq cache 1',
          /local_outbox_seq has cache 50/,
        ],
      ]
    : [
        ...['due', 'order', 'unhandled', 'dead', 'id', 'due_since'].map(
          (name) =>
            [
              `index local_parked_${name}`,
              'indexes',
              `alter table txbox_local_parked rename index local_parked_${name} to hidden`,
              `alter table txbox_local_parked rename index hidden to local_parked_${name}`,
              new RegExp(`missing: local_parked.local_parked_${name}$`),
            ] as const,
        ),
        [
          'type of a consumer',
          'tables',
          'alter table txbox_subscriptions modify consumer varchar(100) not null',
          'alter table txbox_subscriptions modify consumer varbinary(100) not null',
          /txbox_subscriptions.consumer is varchar/,
        ],
        [
          'trigger',
          'order',
          'create trigger txbox_hurt before insert on txbox_local_outbox for each row set new.topic = null',
          'drop trigger txbox_hurt',
          /trigger txbox_hurt of txbox_local_outbox/,
        ],
      ]

test.for(SICKNESSES)(
  'diagnose reports a wrong %s of the local consumers',
  async ([, check, hurt, heal, expected]) => {
    const find = async (): Promise<Finding | undefined> =>
      (await inspection().diagnose({ longTransactionMs: 60_000 })).find((finding) => finding.check === check)
    expect(await find()).toMatchObject({ verdict: 'ok' })
    await target.sql(hurt)
    const sick = await find()
    await target.sql(heal)
    expect(sick).toMatchObject({ verdict: 'problem', found: expect.stringMatching(expected) })
    expect(await find()).toMatchObject({ verdict: 'ok' })
  },
)
