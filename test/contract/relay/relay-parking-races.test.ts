import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { LeaseLostError, portsKey } from '@txbox/core'
import type { BacklogMessage, ConnectedPorts, Lease, RelayStore } from '@txbox/core/ports'
import { shardOf } from '@txbox/core/internal'
import { createDeadLetters } from '@txbox/relay'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, publishIn } from '../../support/subjects/relay-under-test.ts'
import { behind, refusalOf } from '../../support/subjects/settlements.ts'
import { onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const [key, other] = keysOfOneShard(2) as [string, string]
const SHARD = shardOf(key)
const LIMITS = { messages: 1000, bytes: 1_000_000 }
const NAME = `outbox/${String(SHARD).padStart(2, '0')}`

/** The steps of a relay, one by one, so that other operations can happen between two of them. */
onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)
  let relay: RelayStore
  let lease: Lease

  beforeAll(() => {
    relay = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!.relay({
      statementTimeoutMs: 10_000,
    })
  })
  beforeEach(async () => {
    const leases = target.engine === 'postgres' ? 'txbox.leases' : 'txbox_leases'
    await outbox.sql(`insert into ${leases} (name) values (?)`, [NAME])
    await outbox.lend(SHARD, { owner: 'me', term: 7n, forMs: 60_000 })
    lease = { name: NAME, owner: 'me', term: 7n, crashes: 0, inFlight: undefined }
  })

  const read = (): Promise<readonly BacklogMessage[]> => relay.read(SHARD, LIMITS)
  const due = (): Promise<readonly BacklogMessage[]> => relay.readDue(lease, SHARD, LIMITS)
  const idsOf = (messages: readonly { id: string }[]): string[] => messages.map(({ id }) => id)

  /** Refuses the first and parks the rest behind it. */
  async function parkAll(retryInMs: number): Promise<readonly BacklogMessage[]> {
    const batch = await read()
    const [head, ...rest] = batch
    const settlement = { accepted: [], refused: [refusalOf(head!, retryInMs)], behind: behind(rest) }
    await relay.settle(lease, SHARD, settlement)
    return batch
  }

  test('O3 a late commit with a lower number joins the end of a key that is blocked', async () => {
    const late = await root.begin()
    const lateIds = await publishIn(root, late, messagesOf(key, 1, 100))
    const ids = await publishAll(root, messagesOf(key, 3))
    await parkAll(0)
    await late.commit()
    const batch = await read()
    expect(batch.map(({ id, blocked }) => [id, blocked])).toEqual([[lateIds[0], true]])
    await relay.settle(lease, SHARD, { accepted: [], refused: [], behind: behind(batch) })
    const [head] = await due()
    expect(head).toMatchObject({ id: ids[0], attempts: 1, ordered: true })
    const released = [{ key, after: head!.seq }]
    await relay.settleParked(lease, SHARD, { accepted: [head!], refused: [], released })
    expect(idsOf(await due())).toEqual([ids[1], ids[2], ...lateIds])
  })

  test('O4 a blocked key is read as blocked and other keys of its shard are not, no matter which relay parked it', async () => {
    await publishAll(root, messagesOf(key, 2))
    await parkAll(600_000)
    await publishAll(root, [...messagesOf(key, 1), ...messagesOf(other, 1), ...messagesOf(`${key} `, 1)])
    const blocked = new Map((await read()).map((message) => [message.key, message.blocked]))
    expect(blocked.get(key)).toBe(true)
    expect(blocked.get(other)).toBe(false)
    expect(await due()).toEqual([])
    expect(await relay.work([SHARD])).toEqual([{ shard: SHARD, due: false }])
  })

  test('O7 a settlement of a former term changes nothing', async () => {
    const ids = await publishAll(root, messagesOf(key, 3))
    const stale = { ...lease, term: 6n }
    const batch = await read()
    const all = { accepted: batch.slice(0, 1), refused: [refusalOf(batch[1]!, 0)], behind: [] }
    await expect(relay.settle(stale, SHARD, all)).rejects.toThrow(LeaseLostError)
    await expect(relay.settle(stale, SHARD, { ...all, refused: [] })).rejects.toThrow(LeaseLostError)
    expect(idsOf(await read())).toEqual(ids)
    await parkAll(0)
    const [head] = await due()
    for (const settlement of [
      { accepted: [head!], refused: [], released: [{ key, after: head!.seq }] },
      { accepted: [], refused: [refusalOf(head!, undefined)], released: [{ key, after: head!.seq }] },
    ]) {
      await expect(relay.settleParked(stale, SHARD, settlement)).rejects.toThrow(LeaseLostError)
    }
    expect((await outbox.parked()).map(({ id, due, dead }) => [id, due, dead])).toEqual(
      ids.map((id, n) => [id, n === 0, false]),
    )
  })

  test.for(['accepted', 'refused'])(
    'O7 no relay takes a shard while %s messages are being settled',
    async (how) => {
      const [id] = await publishAll(root, messagesOf(key, 1))
      const batch = await read()
      const none = { accepted: [], refused: [], behind: [] }
      const settlement =
        how === 'accepted'
          ? { ...none, accepted: batch }
          : { ...none, refused: batch.map((message) => refusalOf(message, 600_000)) }
      const names = [NAME]
      const request = { owner: 'you', ttlMs: 60_000, limit: 1 }
      const leases = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!.leases()
      const holding = await root.begin()
      await holding.exec(`select id from ${target.outboxTable} where id = ? for update`, [id])
      await outbox.lend(SHARD, { owner: 'me', term: 7n, forMs: 500 })
      const settled = relay.settle(lease, SHARD, settlement)
      await target.blocked(1)
      await pause(600)
      expect(await leases.acquire(names, request)).toEqual([])
      await holding.rollback()
      await settled
      expect((await leases.acquire(names, request)).map(({ term }) => term)).toEqual([8n])
      await leases.close()
      expect(await read()).toEqual([])
    },
  )

  test('O2 a message that is already settled does not return by being parked', async () => {
    const ids = await publishAll(root, messagesOf(key, 3))
    const batch = await read()
    await relay.settle(lease, SHARD, { accepted: [batch[0]!], refused: [], behind: [] })
    const settlement = { accepted: [], refused: [refusalOf(batch[0]!, 0)], behind: behind([batch[1]!]) }
    await relay.settle(lease, SHARD, settlement)
    expect((await outbox.parked()).map(({ id }) => id)).toEqual([ids[1]])
    await relay.settle(lease, SHARD, settlement)
    expect((await outbox.parked()).map(({ id }) => id)).toEqual([ids[1]])
    expect(idsOf(await read())).toEqual([ids[2]])
  })

  test('O4 the head of a key is read alone; its followers are read together, up to one that has to wait longer', async () => {
    const ids = await publishAll(root, messagesOf(key, 5))
    const batch = await parkAll(0)
    const [head, ...more] = await due()
    expect(more).toEqual([])
    await relay.settleParked(lease, SHARD, {
      ...{ accepted: [head!], refused: [], released: [{ key, after: head!.seq }] },
    })
    const following = await due()
    expect(idsOf(following)).toEqual(ids.slice(1))
    // The second message is refused, and waits.
    const refused = [refusalOf(following[1]!, 600_000)]
    await relay.settleParked(lease, SHARD, { accepted: [following[0]!], refused, released: [] })
    expect(await due()).toEqual([])
    expect((await outbox.parked()).map(({ id, attempts, due }) => [id, attempts, due])).toEqual([
      [ids[2], 1, true],
      [ids[3], 0, false],
      [ids[4], 0, false],
    ])
    expect(batch.length).toBe(5)
  })

  test('O6 when many keys continue at once, the batch bounds the number of their messages that are read', async () => {
    const keys = keysOfOneShard(4)
    for (const one of keys) await publishAll(root, messagesOf(one, 5))
    const batch = await read()
    const heads = keys.map((one) => batch.find((message) => message.key === one)!)
    await relay.settle(lease, SHARD, {
      accepted: [],
      refused: heads.map((head) => refusalOf(head, 0)),
      behind: behind(batch.filter((message) => !heads.includes(message))),
    })
    const parked = await due()
    expect(parked.length).toBe(4)
    const released = parked.map(({ key: one, seq }) => ({ key: one!, after: seq }))
    await relay.settleParked(lease, SHARD, { accepted: parked, refused: [], released })
    for (const messages of [4, 8]) {
      const following = await relay.readDue(lease, SHARD, { ...LIMITS, messages })
      expect(following.length).toBe(messages)
      expect(new Set(following.map((message) => message.key))).toEqual(new Set(keys))
    }
  })

  test('O5 a dead head releases the next message of its key', async () => {
    const ids = await publishAll(root, messagesOf(key, 3))
    await parkAll(0)
    const [head] = await due()
    const settlement = {
      ...{ accepted: [], refused: [refusalOf(head!, undefined)], released: [{ key, after: head!.seq }] },
    }
    await relay.settleParked(lease, SHARD, settlement)
    expect(idsOf(await due())).toEqual(ids.slice(1))
    expect((await outbox.parked())[0]).toMatchObject({ id: ids[0], dead: true, due: false, attempts: 2 })
  })

  test('O4 O5 a redriven message does not shorten the pause of the next message of its key', async () => {
    const ids = await publishAll(root, messagesOf(key, 3))
    await parkAll(0)
    const [head] = await due()
    const released = [{ key, after: head!.seq }]
    await relay.settleParked(lease, SHARD, { accepted: [], refused: [refusalOf(head!, undefined)], released })
    const [next] = await due()
    await relay.settleParked(lease, SHARD, {
      ...{ accepted: [], refused: [refusalOf(next!, 600_000)], released: [] },
    })
    await createDeadLetters({ database: root.database }).redrive({ ids: [ids[0]!] })
    const back = await due()
    expect(back.map(({ id, attempts }) => [id, attempts])).toEqual([[ids[0], 0]])
    await relay.settleParked(lease, SHARD, { accepted: back, refused: [], released })
    expect(await due()).toEqual([])
    expect((await outbox.parked()).map(({ id, due: isDue }) => [id, isDue])).toEqual([
      [ids[1], true],
      [ids[2], false],
    ])
  })

  test('O3 O5 a redriven message is read before messages of its key that were already due', async () => {
    const ids = await publishAll(root, messagesOf(key, 3))
    await parkAll(0)
    const [head] = await due()
    await relay.settleParked(lease, SHARD, {
      ...{ accepted: [], refused: [refusalOf(head!, undefined)], released: [{ key, after: head!.seq }] },
    })
    const [next] = await due()
    await relay.settleParked(lease, SHARD, { accepted: [], refused: [refusalOf(next!, 0)], released: [] })
    await createDeadLetters({ database: root.database }).redrive({ ids: [ids[0]!] })
    // This also holds for a read of one message, when another message has been due for longer.
    expect(idsOf(await relay.readDue(lease, SHARD, { ...LIMITS, messages: 1 }))).toEqual(ids.slice(0, 1))
    expect((await outbox.parked()).map(({ due: isDue }) => isDue)).toEqual([true, false, false])
    expect(idsOf(await due())).toEqual(ids)
  })

  test("O12 parking and settling do not wait for a producer's open transaction", async () => {
    await publishAll(root, messagesOf(key, 3))
    const open = await root.begin()
    const scheduled = { topic: 't', key, payload: 1, deliverAt: new Date(0) }
    await publishIn(root, open, [scheduled, ...messagesOf(key, 2), scheduled])
    await parkAll(0)
    const [head] = await due()
    const settlement = { accepted: [head!], refused: [], released: [{ key, after: head!.seq }] }
    await relay.settleParked(lease, SHARD, settlement)
    expect((await due()).length).toBe(2)
    await open.commit()
    expect((await due()).length).toBe(4)
  })
})
