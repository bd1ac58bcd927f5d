import { Pool } from 'pg'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { SettlementError } from '@txbox/core'
import { migrate, postgres } from '@txbox/postgres'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { SHARD, StoreUnderTest, idsOf, refusal } from '../support/subjects/store-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../support/engines/target.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const ROLE = `txbox_test_relay_${process.pid}`

beforeAll(async () => {
  await target.sql(`
    create function public.keep() returns trigger language plpgsql as 'begin return null; end'`)
})

/** For one test. */
async function withSql(begin: string, end: string): Promise<void> {
  await outbox.sql(begin)
  onTestFinished(async () => void (await outbox.sql(end)))
}

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)
  const start = async (): Promise<StoreUnderTest> => {
    const relay = new StoreUnderTest(root, target, outbox)
    await relay.takeLease()
    return relay
  }

  test('O18 messages that a trigger keeps in the outbox are reported, and the others are settled', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'k', 'l', 'kept')
    await withSql(
      `create trigger keep before delete on txbox.outbox for each row when (old.key = 'kept') execute function public.keep()`,
      'drop trigger keep on txbox.outbox',
    )
    const read = await relay.read()
    const late = { accepted: read }
    await expect(relay.settle(late)).rejects.toThrow(SettlementError)
    await expect(relay.settle(late)).rejects.toThrow(
      '1 of 4 rows were not deleted and are still in the outbox',
    )
    expect(idsOf(await relay.read())).toEqual(ids.slice(3))
    await expect(relay.settle({ refused: [refusal(read[3]!)] })).rejects.toThrow(SettlementError)
    expect(await outbox.parked()).toEqual([])
  })

  test('O18 parked messages that a trigger keeps are reported', async () => {
    const relay = await start()
    await relay.publish('k', 'l')
    await relay.settle({ refused: (await relay.read()).map((row) => refusal(row)) })
    await withSql(
      `create trigger keep before delete or update on txbox.parked for each row execute function public.keep()`,
      'drop trigger keep on txbox.parked',
    )
    const [first, second] = await relay.readDue()
    const settlement = { accepted: [first!], refused: [refusal(second!, { attempts: 2 })], released: [] }
    await expect(relay.store.settleParked(relay.lease, SHARD, settlement)).rejects.toThrow(
      '2 of 2 rows were not deleted and are still among the parked messages',
    )
  })

  test('O18 messages that a trigger keeps from being parked stay in the outbox', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'k')
    await withSql(
      'create trigger keep before insert on txbox.parked for each row execute function public.keep()',
      'drop trigger keep on txbox.parked',
    )
    await expect(relay.park(await relay.read())).rejects.toThrow('keeps messages from being parked')
    expect(idsOf(await relay.read())).toEqual(ids)
  })

  test('O18 rows that a policy keeps, and a missing privilege, are reported', async () => {
    await outbox.sql(`create role ${ROLE}`)
    onTestFinished(async () => void (await outbox.sql(`drop owned by ${ROLE}; drop role ${ROLE}`)))
    await outbox.sql(`grant usage on schema txbox to ${ROLE}`)
    await outbox.sql(`grant select, delete on txbox.outbox to ${ROLE}`)
    await outbox.sql(`grant select, insert, update on txbox.parked, txbox.leases to ${ROLE}`)
    await outbox.sql(`grant select on txbox.migrations to ${ROLE}`)
    await withSql(
      'alter table txbox.outbox enable row level security; create policy see on txbox.outbox for select using (true)',
      'drop policy see on txbox.outbox; alter table txbox.outbox disable row level security',
    )
    const pool = new Pool({ connectionString: await databaseUrl(target), options: `-c role=${ROLE}` })
    onTestFinished(() => pool.end())
    // This role may not read the last number of the sequence, either.
    const relay = new StoreUnderTest({ database: postgres({ db: pool }) as never }, target, outbox)
    await relay.takeLease()
    const ids = await relay.publish('k', 'l')
    const read = await relay.read()
    await expect(relay.settle({ accepted: read })).rejects.toThrow('2 of 2 rows')
    expect(idsOf(await relay.read())).toEqual(ids)
    await outbox.sql(`revoke delete on txbox.outbox from ${ROLE}`)
    await expect(relay.settle({ accepted: read })).rejects.toThrow(SettlementError)
    await expect(relay.settle({ accepted: read })).rejects.toThrow('permission denied')
  })
})

test('O18 characters of an error that the database cannot hold are replaced', async () => {
  const name = `txbox_latin1_${process.pid}`
  await outbox.sql(`create database ${name} encoding latin1 locale 'C' template template0`)
  const url = new URL(await databaseUrl(target))
  url.pathname = `/${name}`
  const pool = new Pool({ connectionString: url.href })
  // The database is dropped before the last connection is closed.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => void client.on('error', () => undefined))
  onTestFinished(async () => {
    await pool.end()
    await outbox.sql(`drop database ${name} with (force)`)
  })
  await migrate(pool)
  const there = {
    ...outbox,
    sql: async (text: string, values: readonly unknown[] = []) => {
      let n = 0
      return (
        await pool.query(
          text.replaceAll('?', () => `$${++n}`),
          [...values],
        )
      ).rows
    },
  }
  const relay = new StoreUnderTest({ database: postgres({ db: pool }) as never }, target, there)
  await relay.takeLease()
  await relay.publish('k', 'k')
  const errors = JSON.stringify([{ at: '2026-01-01T00:00:00.000Z', attempt: 1, error: 'é “quoted” 😀' }])
  await relay.park(await relay.read(), { error: 'é “quoted” 😀\0', errors })
  const [head] = await relay.readDue()
  expect(JSON.parse(head!.errors!)).toEqual(JSON.parse(errors))
  const { rows } = await pool.query<{ error: string }>(
    'select error from txbox.parked where error is not null',
  )
  expect(rows).toEqual([{ error: '\\u{e9} \\u{201c}quoted\\u{201d} \\u{1f600}\\u{0}' }])
})
