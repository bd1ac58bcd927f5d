import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'pg'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { SettlementError } from '@txbox/core'
import type { LocalRow } from '@txbox/core/ports'
import { postgres } from '@txbox/postgres'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { AT, LocalStoreUnderTest, idsOf, refusal } from '../support/subjects/local-store-under-test.ts'
import { onMainRoot, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const ROLE = `txbox_test_local_${process.pid}`

beforeAll(async () => {
  await target.sql(
    `create function public.keep() returns trigger language plpgsql as 'begin return null; end'`,
  )
})

/** For one test. */
async function withSql(begin: string, end: string): Promise<void> {
  await outbox.sql(begin)
  onTestFinished(async () => void (await outbox.sql(end)))
}

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)
  const start = async (): Promise<LocalStoreUnderTest> => {
    const local = new LocalStoreUnderTest(root, target, outbox)
    await local.takeLease()
    return local
  }

  test('O18 local messages that a trigger keeps are reported, and the others are settled', async () => {
    const local = await start()
    const ids = await local.publish('k', 'l', 'kept')
    await withSql(
      `create trigger keep before delete on txbox.local_outbox for each row when (old.key = 'kept') execute function public.keep()`,
      'drop trigger keep on txbox.local_outbox',
    )
    const read = await local.messages()
    await expect(local.settle({ accepted: read })).rejects.toThrow(SettlementError)
    expect(idsOf(await local.messages())).toEqual(ids.slice(2))
    await expect(local.settle({ refused: [refusal(read[2]!)] })).rejects.toThrow(SettlementError)
    expect(await local.parked()).toEqual([])
  })

  test('O18 local messages that a trigger keeps from being parked stay where they are', async () => {
    const local = await start()
    const ids = await local.publish('k', 'l')
    await withSql(
      'create trigger keep before insert on txbox.local_parked for each row execute function public.keep()',
      'drop trigger keep on txbox.local_parked',
    )
    const read = await local.messages()
    await expect(local.park(read)).rejects.toThrow('Something keeps messages from being parked')
    expect(idsOf(await local.messages())).toEqual(ids)
  })

  test('L4 a lock that is delayed until another owner has the lease locks nothing for its handler', async () => {
    const local = await start()
    await local.publish('k', 'l', 'm')
    const [waiting, parked, other] = await local.messages()
    await local.settle({ refused: [refusal(parked!)] })
    const [due] = await local.readDue()
    // A policy is evaluated for each row, before the row is locked, and after the lease was read.
    await withSql(
      `create function public.slowly() returns boolean language plpgsql volatile as 'begin perform pg_sleep(0.4); return true; end';
       create role ${ROLE} login;
       grant usage on schema txbox to ${ROLE};
       grant select, insert, update, delete on all tables in schema txbox to ${ROLE};
       alter table txbox.local_outbox enable row level security;
       alter table txbox.local_parked enable row level security;
       create policy slow on txbox.local_outbox to ${ROLE} using (public.slowly());
       create policy slow on txbox.local_parked to ${ROLE} using (public.slowly())`,
      `drop policy slow on txbox.local_outbox; drop policy slow on txbox.local_parked;
       alter table txbox.local_outbox disable row level security;
       alter table txbox.local_parked disable row level security;
       drop function public.slowly(); drop owned by ${ROLE}; drop role ${ROLE}`,
    )
    const url = new URL(await databaseUrl(target))
    url.username = ROLE
    const pool = new Pool({ connectionString: url.href, max: 4 })
    onTestFinished(() => pool.end())
    const slow = new LocalStoreUnderTest({ database: postgres({ db: pool }) }, target, outbox)
    for (const rows of [[waiting!], [due!], [waiting!, other!]]) {
      const lock = async (): Promise<readonly LocalRow[]> => {
        const { lease } = local
        return slow.ports.transact((_tx, session) => slow.store.lock(session, lease, AT, rows), {})
      }
      expect(await lock()).toEqual(rows)
      await local.leases.release([local.lease])
      // The lease expires while the policy is evaluated. A test that expired it by hand would be in a later snapshot.
      await local.takeLease('a', 200)
      const late = lock()
      await sleep(250)
      await local.takeLease('b')
      expect(await late).toEqual([])
    }
  })
})
