import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { DedupStoreUnavailableError, sqlDedup, type SqlDedup } from '@txbox/consumer'
import { createGarbageCollector } from '@txbox/gc'
import { onEachRoot, useTarget, type HandleKind, type RootOptions } from '../../support/engines/target.ts'
import { dedupRules, tokenOf } from '../../support/subjects/dedup-rules.ts'
import { Proxy } from '../../support/worlds/proxy.ts'

const target = useTarget()
const onPostgres = target.engine === 'postgres'
/** The name of the table, with another end if it was renamed. */
const tableOf = (end = ''): string => target.outboxTable.replace(/outbox$/, `dedup_leases${end}`)
const keyColumn = onPostgres ? 'key' : '`key`'
const claim = () => ({ consumer: 'orders', key: randomUUID(), leaseMs: 30_000 })

async function proxy(): Promise<Proxy> {
  const between = await Proxy.to(target.address())
  onTestFinished(() => between.close())
  return between
}

onEachRoot(target, (kind: HandleKind) => {
  async function store(options: RootOptions & { onUnavailable?: 'process' } = {}): Promise<SqlDedup> {
    const { onUnavailable, ...rest } = options
    const root = target.open(kind, rest)
    onTestFinished(() => root.close())
    await root.ready?.()
    return sqlDedup({ database: root.database, onUnavailable })
  }

  dedupRules({
    store: () => store(),
    async claims() {
      const rows = await target.sql(`select ${keyColumn} as k, expires_at as e from ${tableOf()}`)
      return rows.map(({ k, e }) => ({ key: String(k), expires: e !== null }))
    },
    async leftMs(token) {
      const [consumer, key] = JSON.parse(token.slice(36)) as [string, string]
      const left = onPostgres
        ? 'extract(epoch from expires_at - clock_timestamp()) * 1000'
        : 'timestampdiff(microsecond, utc_timestamp(6), expires_at) / 1000'
      const [row] = await target.sql(
        `select ${left} as n from ${tableOf()} where consumer = ? and ${keyColumn} = ?`,
        [Buffer.from(consumer), Buffer.from(key)].map((bytes) => (onPostgres ? bytes.toString() : bytes)),
      )
      return Number(row?.['n'])
    },
    now: () => target.now(),
  })

  test.for(['cutBefore', 'cutAfter'] as const)(
    'R2 a call of begin is cut off (%s): the call wins, or the message is free again',
    async (cut) => {
      const between = await proxy()
      const dedup = await store({ through: between })
      await dedup.begin(claim())
      const one = claim()
      between[cut](/insert[^]*dedup_leases/i)
      const result = await dedup.begin(one).catch((error: unknown) => error)
      expect(result).toBeInstanceOf(DedupStoreUnavailableError)
      expect(result).toMatchObject({ code: 'TXBOX_DEDUP_STORE_UNAVAILABLE', retryable: true })
      const direct = await store()
      await expect.poll(async () => (await direct.begin(one)).status, { timeout: 10_000 }).toBe('won')
    },
  )

  test.for(['cutBefore', 'cutAfter'] as const)(
    'R4 a call of complete is cut off (%s): the repeated call completes the claim',
    async (cut) => {
      const between = await proxy()
      const dedup = await store({ through: between })
      const one = claim()
      const token = tokenOf(await dedup.begin(one))
      between[cut](/\bupdate\s[^]*dedup_leases/i)
      await expect(dedup.complete(token, { result: 'r' })).rejects.toBeInstanceOf(DedupStoreUnavailableError)
      expect(await dedup.complete(token, { result: 'r' })).toBe('completed')
      expect(await dedup.begin(one)).toMatchObject({ status: 'done', result: 'r' })
    },
  )

  test('R7 a database that cannot be reached or refuses a statement is unavailable, without the arguments, and works afterwards', async () => {
    const between = await proxy()
    const dedup = await store({ through: between })
    const token = tokenOf(await dedup.begin(claim()))
    const outage = between.refuse()
    const failure = await dedup.complete(token, { result: 'secret' }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(DedupStoreUnavailableError)
    expect(String(failure)).not.toContain('secret')
    outage.over()
    await expect.poll(async () => dedup.complete(token), { timeout: 10_000 }).toBe('completed')
    const rename = (from: string, to: string): Promise<unknown> =>
      target.sql(`alter table ${from} rename to ${onPostgres ? to.split('.').at(-1)! : to}`)
    await rename(tableOf(), tableOf('_gone'))
    onTestFinished(async () => void (await rename(tableOf('_gone'), tableOf())))
    await expect(dedup.begin(claim())).rejects.toBeInstanceOf(DedupStoreUnavailableError)
  })

  test('R5 a collector removes claims whose lease or retention has passed, and no others', async () => {
    const root = target.open(kind)
    onTestFinished(() => root.close())
    const dedup = sqlDedup({ database: root.database })
    await target.sql(`delete from ${tableOf()}`)
    const [held, kept, lost, old] = [claim(), claim(), claim(), claim()]
    await dedup.begin(held)
    await dedup.complete(tokenOf(await dedup.begin(kept)))
    await dedup.begin({ ...lost, leaseMs: 1000 })
    await dedup.complete(tokenOf(await dedup.begin(old)), { retentionMs: 1000 })
    await sleep(1100)
    const gc = createGarbageCollector({ database: root.database, batchSize: 1, pauseMs: 0 })
    expect(await gc.runOnce()).toMatchObject({ inbox: 2, complete: true, failures: 0 })
    const rows = await target.sql(`select ${keyColumn} as k from ${tableOf()}`)
    expect(rows.map(({ k }) => String(k)).toSorted()).toEqual([held.key, kept.key].toSorted())
  })
})
