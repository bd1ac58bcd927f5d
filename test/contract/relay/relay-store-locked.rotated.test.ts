import { expect, test } from 'vitest'
import type { OpenTransaction } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { LIMITS, SHARD, StoreUnderTest } from '../../support/subjects/store-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const POOL = 6
// MySQL and MariaDB count the wait for a lock in seconds: more than one would end after the time limit of the client. A busy
// machine must answer what is not locked within this time.
const TIMEOUT_MS = 1200

/** Statements of other connections that wait for a lock: each occupies a connection of the server. */
async function waitingStatements(): Promise<number> {
  const [row] =
    target.engine === 'postgres'
      ? await outbox.sql(
          `select count(*) as n from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock'`,
        )
      : await outbox.sql(
          `select count(*) as n from information_schema.processlist
           where db = database() and (info like '%outbox%' or info like '%parked%') and id <> connection_id()`,
        )
  return Number(row?.['n'])
}

async function lockTable(transaction: OpenTransaction): Promise<void> {
  if (target.engine === 'postgres') await transaction.exec('lock table txbox.outbox in access exclusive mode')
  else await transaction.exec('lock tables txbox_outbox write')
}

async function unlock(transaction: OpenTransaction): Promise<void> {
  if (target.engine !== 'postgres') await transaction.exec('unlock tables')
  await transaction.rollback()
}

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: POOL })
  const other = useRoot(target, kind)

  test('O19 while the outbox is locked, statements that exceed their time limit are cancelled on the server', async () => {
    const relay = new StoreUnderTest(root, target, outbox, TIMEOUT_MS)
    const lease = await relay.takeLease()
    await relay.publish('k')
    const read = await relay.read()
    const locker = await other.begin()
    await lockTable(locker)
    const calls = [
      () => relay.store.read(SHARD, LIMITS),
      () => relay.store.work([SHARD]),
      () => relay.store.settle(lease, SHARD, { accepted: read, refused: [], behind: [] }),
      () =>
        relay.store.settle(lease, SHARD, {
          accepted: [],
          refused: [],
          behind: [{ row: read[0]!, suspect: false }],
        }),
    ]
    const counts: number[] = []
    const end = performance.now() + 3 * TIMEOUT_MS
    try {
      const lanes = calls.map(async (call) => {
        while (performance.now() < end) await expect(call()).rejects.toThrow()
      })
      const watch = async (): Promise<void> => {
        while (performance.now() < end) counts.push(await waitingStatements())
      }
      await Promise.all([...lanes, watch()])
      // The lock is still held, and nothing waits for it any more.
      await until(
        async () => (await waitingStatements()) === 0,
        async () => `nothing waits for the lock; there are ${await waitingStatements()}`,
      )
    } finally {
      await unlock(locker)
    }
    expect(Math.max(...counts)).toBeGreaterThan(0)
    expect(Math.max(...counts)).toBeLessThanOrEqual(POOL)
    await relay.settle({ accepted: await relay.read() })
    expect(await outbox.backlogSize()).toBe(0)
  })

  test('O19 a settlement that waits for a row that another session has locked is cancelled on the server', async () => {
    const relay = new StoreUnderTest(root, target, outbox, TIMEOUT_MS)
    await relay.takeLease()
    await relay.publish('k')
    const read = await relay.read()
    const locker = await other.begin()
    await locker.exec(`select * from ${relay.table('outbox')} for update`)
    await expect(relay.settle({ accepted: read })).rejects.toThrow()
    await until(
      async () => (await waitingStatements()) === 0,
      async () => `nothing waits for the row; there are ${await waitingStatements()}`,
    )
    await locker.rollback()
    // The settlement may be repeated.
    await relay.settle({ accepted: read })
    expect(await relay.read()).toEqual([])
  })
})
