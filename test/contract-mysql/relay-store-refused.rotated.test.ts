import { createPool, type PoolOptions } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { SettlementError } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { SHARD, StoreUnderTest, idsOf, refusal } from '../support/subjects/store-under-test.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

/** A relay's store on connections with unusual settings. */
async function startOn(
  options: PoolOptions,
  session?: string,
  statementTimeoutMs?: number,
): Promise<StoreUnderTest> {
  const pool = createPool({ uri: outbox.url(), ...options })
  onTestFinished(() => pool.end())
  if (session !== undefined) {
    pool.pool.on('connection', (connection) => {
      connection.query(session, (error) => {
        if (error !== null) throw error
      })
    })
  }
  const relay = new StoreUnderTest(
    { database: mysql({ db: pool }) as never },
    target,
    outbox,
    statementTimeoutMs,
  )
  await relay.takeLease()
  return relay
}

/** Calls every operation of a store that writes. */
async function settleInEveryWay(relay: StoreUnderTest): Promise<void> {
  const { store, lease, leases } = relay
  const ids = await relay.publish('k', 'k', 'k', 'l', undefined)
  const read = await relay.read()
  await relay.settle({ accepted: read.slice(4) })
  await relay.park(read.slice(0, 3), { error: 'a “refusal”', attempts: 0 })
  await relay.settle({ refused: [refusal(read[3]!, { retryInMs: undefined })] })
  const due = await relay.readDue()
  expect(idsOf(due)).toEqual(ids.slice(0, 3))
  await store.suspectParked(lease, SHARD, { from: due[1]!.seq, to: due[1]!.seq })
  const released = [{ key: 'k', after: due[0]!.seq }]
  await store.settleParked(lease, SHARD, { accepted: due.slice(0, 1), refused: [], released })
  const suspect = await relay.readSuspect()
  expect(suspect?.id).toBe(ids[1])
  await store.settleParked(lease, SHARD, { accepted: [], refused: [refusal(suspect!)], released: [] })
  await outbox.sql('delete from txbox_parked where id = ?', [ids[1]])
  expect(await store.healKeys(lease, SHARD)).toBe(1)
  expect(await store.work([SHARD])).toEqual([{ shard: SHARD, due: true }])
  expect(await store.note(lease, 'x')).toBe(true)
  await store.survived(lease)
  expect(await leases.renew([lease], 60_000)).toEqual([lease])
  await leases.release([lease], new Set([lease]))
  await leases.sweep('outbox/', 0)
}

test.each([
  ['safe updates', {}, 'set session sql_safe_updates = 1'],
  [
    'a strict mode of names and values',
    {},
    "set session sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'",
  ],
  ['SERIALIZABLE', {}, 'set session transaction isolation level serializable'],
] as const)('O18 settlements work on connections with %s', async (_, options, session) => {
  await settleInEveryWay(await startOn(options, session))
})

test('O18 verdicts that are larger than a packet are settled, those of one key in order', async () => {
  // A busy machine writes these packets in more than ten seconds.
  const relay = await startOn({}, undefined, 25_000)
  const [row] = await outbox.sql('select @@max_allowed_packet as bytes')
  const keys = Array.from({ length: 200 }, (_, n) => `k${n % 100}`)
  const ids = await relay.publish(...keys)
  const read = await relay.store.read(SHARD, { messages: 1000, bytes: 10_000_000 })
  const textBytes = Math.ceil(Number(row?.['bytes']) / 100)
  const errors = JSON.stringify([
    { at: '2026-01-01T00:00:00.000Z', attempt: 1, error: 'old'.padEnd(10, '.') },
    { at: '2026-01-01T00:00:00.000Z', attempt: 2, error: '"'.repeat(Math.floor(textBytes / 4)) },
  ])
  const error = 'é'.repeat(50_000)
  await relay.settle({
    refused: read.slice(0, 100).map((message) => refusal(message, { error, errors, attempts: 0 })),
    behind: read.slice(100).map((message) => ({ row: message, suspect: false })),
  })
  expect(await outbox.backlogSize()).toBe(200)
  expect(await relay.read()).toEqual([])
  const parked = await outbox.parked()
  expect(parked.map(({ id }) => id)).toEqual(ids)
  expect(parked[0]?.error).toBe('é'.repeat(30_000))
  const due = await relay.store.readDue(relay.lease, SHARD, { messages: 400, bytes: 100_000_000 })
  expect(due.length).toBe(200)
  expect(JSON.parse(due[0]!.errors!)).toEqual(JSON.parse(errors))
})

test('O18 characters of an error that the column cannot hold are replaced', async () => {
  const relay = await startOn({}, "set session sql_mode = 'STRICT_ALL_TABLES'")
  const alter = (charset: string): Promise<unknown> =>
    outbox.sql(
      `alter table txbox_parked modify error text character set ${charset}, modify errors mediumtext character set ${charset}`,
    )
  await alter('latin1')
  onTestFinished(async () => void (await alter('utf8mb4')))
  await relay.publish('k', 'k')
  const errors = JSON.stringify([{ at: '2026-01-01T00:00:00.000Z', attempt: 1, error: 'é “quoted” 😀' }])
  await relay.park(await relay.read(), { error: 'é “quoted” 😀 \ud800', errors, attempts: 1 })
  const [head] = await relay.readDue()
  expect(JSON.parse(head!.errors!)).toEqual(JSON.parse(errors))
  const [row] = await outbox.sql('select error from txbox_parked where error is not null')
  expect(row?.['error']).toBe('\\u{e9} \\u{201c}quoted\\u{201d} \\u{1f600} \\u{d800}')
})

test('O18 a missing privilege is reported', async () => {
  const relay = await startOn({})
  const ids = await relay.publish('k')
  const read = await relay.read()
  await outbox.sql(
    `create trigger txbox_keep before delete on txbox_outbox for each row
     signal sqlstate '42000' set mysql_errno = 1142, message_text = 'DELETE command denied'`,
  )
  onTestFinished(async () => void (await outbox.sql('drop trigger txbox_keep')))
  await expect(relay.settle({ accepted: read })).rejects.toThrow(SettlementError)
  await expect(relay.settle({ refused: [refusal(read[0]!)] })).rejects.toThrow(SettlementError)
  expect(idsOf(await relay.read())).toEqual(ids)
  expect(await outbox.parked()).toEqual([])
})
