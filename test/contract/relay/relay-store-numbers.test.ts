import { expect, test } from 'vitest'
import type { BacklogMessage } from '@txbox/core/ports'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { SHARD, StoreUnderTest, idsOf, refusal } from '../../support/subjects/store-under-test.ts'
import { onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

/** Lets the database assign the same numbers, or places, again. */
async function truncate(table: string): Promise<void> {
  await outbox.sql(`truncate ${table} ${target.engine === 'postgres' ? 'restart identity' : ''}`)
}

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)
  const start = async (): Promise<StoreUnderTest> => {
    const relay = new StoreUnderTest(root, target, outbox)
    await relay.takeLease()
    return relay
  }

  test('O14 a batch from before a TRUNCATE settles none of the messages that have its numbers now', async () => {
    const relay = await start()
    await truncate(relay.table('outbox'))
    await relay.publish('k', 'k', 'l', undefined)
    const old = await relay.read()
    await truncate(relay.table('outbox'))
    const ids = await relay.publish('k', 'k', 'l', undefined)
    const now = await relay.read()
    expect(now.map(({ seq }) => seq)).toEqual(old.map(({ seq }) => seq))

    await relay.settle({ accepted: old })
    await relay.settle({ accepted: old.map((row) => ({ ...row, address: undefined })) })
    await relay.settle({
      accepted: old.slice(3),
      refused: [refusal(old[0]!), refusal(old[2]!, { retryInMs: undefined })],
      behind: [{ row: old[1]!, suspect: false }],
    })
    expect(idsOf(await relay.read())).toEqual(ids)
    expect(await outbox.parked()).toEqual([])
  })

  test('O14 verdicts from before a TRUNCATE leave alone the parked messages that have their places now', async () => {
    const relay = await start()
    const parkTwo = async (): Promise<readonly BacklogMessage[]> => {
      await truncate(relay.table('outbox'))
      await truncate(relay.table('parked'))
      await relay.publish('k', 'k')
      await relay.park(await relay.read(), { attempts: 0 })
      return relay.readDue()
    }
    const old = await parkTwo()
    const now = await parkTwo()
    expect(now.map(({ seq }) => seq)).toEqual(old.map(({ seq }) => seq))

    const before = await outbox.parked()
    const released = [{ key: 'k', after: old[1]!.seq }]
    const { store, lease } = relay
    await store.settleParked(lease, SHARD, { accepted: old, refused: [], released })
    await store.settleParked(lease, SHARD, { accepted: old.slice(0, 1), refused: [], released: [] })
    const refused = [refusal(old[0]!, { retryInMs: undefined, attempts: 9 })]
    await store.settleParked(lease, SHARD, { accepted: [], refused, released })
    expect(await outbox.parked()).toEqual(before)
    expect(idsOf(await relay.readDue())).toEqual(idsOf(now))
  })

  test('O14 a key that is released after a place of another server is neither skipped nor overtaken', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'k', 'k')
    await relay.park(await relay.read(), { retryInMs: 3_600_000 })
    // No message of the key is settled: its head stays the only message that will be due.
    const through = { accepted: [], refused: [], released: [{ key: 'k', after: 10n ** 15n }] }
    await relay.store.settleParked(relay.lease, SHARD, through)
    expect(await relay.readDue()).toEqual([])
    expect((await outbox.parked()).map(({ id, due }) => [id, due])).toEqual([
      [ids[0], true],
      [ids[1], false],
      [ids[2], false],
    ])
    // The head was deleted by hand: the first remaining message is due, whatever place is named.
    await outbox.sql(`delete from ${relay.table('parked')} where id = ?`, [ids[0]])
    await relay.store.settleParked(relay.lease, SHARD, through)
    expect(idsOf(await relay.readDue())).toEqual(ids.slice(1))
  })

  test('O14 the remembered start is void after a TRUNCATE: new messages are found at once', async () => {
    const relay = await start()
    const { store } = relay
    await drainMany(relay)
    const { generation } = store
    await truncate(relay.table('outbox'))
    const ids = await relay.publish('k', 'l')
    await later(relay)
    expect(await store.work([SHARD])).toEqual([{ shard: SHARD, due: false }])
    expect(idsOf(await relay.read())).toEqual(ids)
    expect(store.generation).toBeGreaterThan(generation)
    const after = store.generation
    await relay.settle({ accepted: await relay.read() })
    expect(await store.work([SHARD])).toEqual([])
    expect(store.generation).toBe(after)
  })

  if (target.engine === 'postgres') {
    test.each([
      'alter sequence txbox.outbox_seq restart',
      "select setval('txbox.outbox_seq', 1, false)",
      "select setval('txbox.outbox_seq', 5)",
    ])('O14 the remembered start is void after: %s', async (reset) => {
      const relay = await start()
      await drainMany(relay)
      const { generation } = relay.store
      await outbox.sql(reset)
      const ids = await relay.publish('k', 'l')
      expect(await relay.store.work([SHARD])).toEqual([{ shard: SHARD, due: false }])
      expect(idsOf(await relay.read())).toEqual(ids)
      expect(relay.store.generation).toBeGreaterThan(generation)
    })
  }

  /** So many messages that the store remembers where its reads begin. */
  async function drainMany(relay: StoreUnderTest): Promise<void> {
    for (let round = 0; round < 30; round++) {
      await relay.publish(...Array.from({ length: 100 }, () => undefined))
      await relay.settle({ accepted: await relay.read() })
    }
    expect(await relay.read()).toEqual([])
  }

  /**
   * Moves the stamps two seconds later on MySQL and MariaDB, which recognize numbers that are assigned again by stamps
   * that differ by more than a second.
   */
  async function later(relay: StoreUnderTest): Promise<void> {
    if (target.engine === 'postgres') return
    await outbox.sql(`update ${relay.table('outbox')} set created_at = created_at + interval 2 second`)
  }
})
