import { expect, onTestFinished, test } from 'vitest'
import { LeaseLostError, SettlementError } from '@txbox/core'
import type { Lease, LocalAcceptance, LocalMessage } from '@txbox/core/ports'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { onEachRoot, useRoot, useTarget } from '../support/engines/target.ts'
import { LIMITS, LocalStoreUnderTest, idsOf } from '../support/subjects/local-store-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const SHARDS = [3, 4, 5] as const
const shardOf = (shard: number) => ({ consumer: 'billing', shard })

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 6 })

  /** Three shards with two messages each, and the leases of all three. */
  async function start() {
    const local = new LocalStoreUnderTest(root, target, outbox)
    const names = SHARDS.map((shard) => `local/billing/0${shard}`)
    const acquired = await local.leases.acquire(names, { owner: 'a', ttlMs: 60_000, limit: 3 })
    const leases = names.map((name) => acquired.find((lease) => lease.name === name)!)
    for (const shard of SHARDS) {
      const { text, parameters } = local.insertOf(['k', 'l'], { shard })
      await outbox.sql(text, parameters)
    }
    const read = async (shard: number): Promise<readonly LocalMessage[]> =>
      (await local.store.read(shardOf(shard), LIMITS, { after: undefined, without: [] })).messages
    const left = async (): Promise<readonly number[]> =>
      Promise.all(SHARDS.map(async (shard) => (await read(shard)).length))
    const accepting = async (change: (lease: Lease, n: number) => Lease = (lease) => lease) =>
      Promise.all(
        SHARDS.map(async (shard, n): Promise<LocalAcceptance> => ({
          lease: change(leases[n]!, n),
          at: shardOf(shard),
          rows: await read(shard),
        })),
      )
    return { local, leases, read, left, accepting, accept: local.store.acceptTogether!.bind(local.store) }
  }

  test('L8 messages of several shards are deleted in one transaction', async () => {
    const { accept, accepting, left } = await start()
    expect(await accept(await accepting())).toEqual([[], [], []])
    expect(await left()).toEqual([0, 0, 0])
    // Rows that no longer exist are skipped.
    expect(await accept([])).toEqual([])
  })

  test('L4 if one lease is of another term or owner, has expired or was taken, no message of any shard is deleted', async () => {
    const { accept, accepting, left, local } = await start()
    for (const other of [{ term: 9n }, { owner: 'b' }, { name: 'local/billing/09' }]) {
      for (const wrong of [0, 1, 2]) {
        const acceptances = await accepting((lease, n) => (n === wrong ? { ...lease, ...other } : lease))
        await expect(accept(acceptances)).rejects.toThrow(LeaseLostError)
      }
    }
    await outbox.sql(
      `update txbox.leases set expires_at = clock_timestamp() - interval '1 ms' where name = 'local/billing/04'`,
    )
    const acceptances = await accepting()
    await expect(accept(acceptances)).rejects.toThrow(LeaseLostError)
    await local.leases.acquire(['local/billing/04'], { owner: 'b', ttlMs: 60_000, limit: 1 })
    await expect(accept(acceptances)).rejects.toThrow(LeaseLostError)
    expect(await left()).toEqual([2, 2, 2])
  })

  test('L4 a lease that is lost after the rows were deleted lets nothing commit', async () => {
    const { accept, accepting, left } = await start()
    await outbox.sql(
      `create function public.expire() returns trigger language plpgsql as
       'begin update txbox.leases set expires_at = clock_timestamp() where name = ''local/billing/05''; return null; end'`,
    )
    onTestFinished(async () => void (await outbox.sql('drop function public.expire() cascade')))
    await outbox.sql(
      'create trigger expire after delete on txbox.local_outbox for each statement execute function public.expire()',
    )
    await expect(accept(await accepting())).rejects.toThrow(LeaseLostError)
    expect(await left()).toEqual([2, 2, 2])
  })

  test('L4 a row is deleted only under the lease of its own shard, and only with its own number and stamp', async () => {
    const { accept, accepting, left, read } = await start()
    const [three, four] = await accepting()
    const other = await read(5)
    const renamed = four!.rows.map(({ in: where, seq, stamp }) => ({ in: where, seq, stamp: stamp + 1 }))
    const answer = await accept([
      { ...three!, rows: [...three!.rows, ...other] },
      { ...four!, rows: renamed },
    ])
    expect(answer).toEqual([[], []])
    expect(await left()).toEqual([0, 2, 2])
  })

  test('L4 rows that a handler has locked are left as they are and reported for their shard, and nobody waits', async () => {
    const { accept, accepting, leases, left, local, read } = await start()
    const [row] = await read(4)
    const locked = Promise.withResolvers<void>()
    const end = Promise.withResolvers<void>()
    const handler = local.ports.transact(async (_tx, session) => {
      await local.store.lock(session, leases[1]!, shardOf(4), [row!])
      locked.resolve()
      await end.promise
    }, {})
    onTestFinished(() => (end.resolve(), handler.then(() => undefined)))
    await locked.promise
    const [three, four, five] = await accept(await accepting())
    expect([three, idsOf(four as LocalMessage[]), five]).toEqual([[], [row!.id], []])
    expect(await left()).toEqual([0, 1, 0])
    end.resolve()
    await handler
    expect(await accept((await accepting()).filter(({ rows }) => rows.length > 0))).toEqual([[]])
    expect(await left()).toEqual([0, 0, 0])
  })

  test('L4 while a transaction is open that has settled, no lease of it can be acquired, and all can be renewed', async () => {
    const { accept, accepting, leases, local } = await start()
    // A constraint trigger delays COMMIT, and with it the end of the locks.
    await outbox.sql(
      `create function public.late() returns trigger language plpgsql as 'begin perform pg_sleep(0.15); return null; end'`,
    )
    onTestFinished(async () => void (await outbox.sql('drop function public.late() cascade')))
    await outbox.sql(
      'create constraint trigger late after delete on txbox.local_outbox deferrable initially deferred ' +
        'for each row execute function public.late()',
    )
    let isDone = false
    const accepted = accept(await accepting()).finally(() => (isDone = true))
    await expect
      .poll(async () => {
        const rows = await outbox.sql(
          "select 1 as held from pg_locks where relation = 'txbox.leases'::regclass and mode = 'RowShareLock'",
        )
        return rows.length
      })
      .toBe(1)
    expect((await local.leases.renew(leases, 1)).length).toBe(3)
    await new Promise((resolve) => setTimeout(resolve, 20))
    const taken = await local.leases.acquire(
      leases.map(({ name }) => name),
      { owner: 'b', ttlMs: 60_000, limit: 3 },
    )
    expect([taken, isDone]).toEqual([[], false])
    expect(await accepted).toEqual([[], [], []])
  })

  test('O18 messages that a trigger keeps are reported', async () => {
    const { accept, accepting, left } = await start()
    await outbox.sql(
      `create function public.keep_row() returns trigger language plpgsql as 'begin return null; end'`,
    )
    onTestFinished(async () => void (await outbox.sql('drop function public.keep_row() cascade')))
    await outbox.sql(
      `create trigger keep before delete on txbox.local_outbox for each row when (old.shard = 4) execute function public.keep_row()`,
    )
    await expect(accept(await accepting())).rejects.toThrow(SettlementError)
    expect(await left()).toEqual([0, 2, 0])
  })
})
