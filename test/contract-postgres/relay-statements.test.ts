import { beforeEach, expect, test } from 'vitest'
import { LeaseLostError, portsKey } from '@txbox/core'
import type { BacklogMessage, ConnectedPorts, Lease, RelayStore } from '@txbox/core/ports'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { onEachKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const SHARD = 3
const NAME = 'outbox/03'
const LIMITS = { messages: 1000, bytes: 1_000_000 }

onEachKind(target, (kind) => {
  const root = useRoot(target, kind, { max: 4 })
  let relay: RelayStore
  let lease: Lease

  beforeEach(async () => {
    const ports = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
    relay = ports.relay({ statementTimeoutMs: 10_000 })
    await outbox.fill(160)
    await outbox.sql(
      "insert into txbox.leases (name, owner, term, expires_at) values (?, 'me', 7, now() + interval '1 hour')",
      [NAME],
    )
    lease = { name: NAME, owner: 'me', term: 7n, crashes: 0, inFlight: undefined }
  })

  const settle = (accepted: readonly BacklogMessage[], by: Lease = lease): Promise<void> =>
    relay.settle(by, SHARD, { accepted, refused: [], behind: [] })
  const left = async (): Promise<readonly bigint[]> => (await relay.read(SHARD, LIMITS)).map(({ seq }) => seq)

  test('O1 accepted messages are deleted, and no others', async () => {
    const read = await relay.read(SHARD, LIMITS)
    await settle(read.slice(2, 5).toReversed())
    expect(await left()).toEqual([...read.slice(0, 2), ...read.slice(5)].map(({ seq }) => seq))
    expect(await outbox.backlogSize()).toBe(157)
  })

  test('O7 another term, another owner, or an expired lease settles nothing', async () => {
    const read = await relay.read(SHARD, LIMITS)
    for (const stale of [
      { ...lease, term: 6n },
      { ...lease, owner: 'you' },
      { ...lease, name: 'outbox/04' },
    ]) {
      await expect(settle(read, stale)).rejects.toThrow(LeaseLostError)
    }
    await outbox.expireLeases()
    await expect(settle(read)).rejects.toThrow(LeaseLostError)
    expect(await outbox.backlogSize()).toBe(160)
  })

  test('messages that were deleted by hand do not make the lease count as lost', async () => {
    const read = await relay.read(SHARD, LIMITS)
    await settle(read.slice(0, 4))
    await settle(read)
    expect([await left(), await outbox.backlogSize()]).toEqual([[], 150])
  })

  test('O1 rows that have moved between reading and settling are found by their numbers', async () => {
    const read = await relay.read(SHARD, LIMITS)
    await settle(read.slice(0, 1))
    await outbox.sql('vacuum full txbox.outbox')
    await settle(read.slice(1, 6))
    expect(await left()).toEqual(read.slice(6).map(({ seq }) => seq))
    expect(await outbox.backlogSize()).toBe(154)
  })

  test('O1 a message at the former address of an accepted message is not deleted', async () => {
    const read = await relay.read(SHARD, LIMITS)
    // All rows have exchanged their addresses, and one is the row of a message that was not accepted.
    const addressOf = (n: number): unknown => Reflect.get(read[n % read.length]!, 'address')
    expect(addressOf(0)).toEqual(expect.any(Number))
    const moved = read.map((message, n) => ({ ...message, address: addressOf(n + 1) }))
    await settle(moved.slice(0, 4))
    expect(await left()).toEqual(read.slice(4).map(({ seq }) => seq))
    expect(await outbox.backlogSize()).toBe(156)
  })

  test('O12 payloads are read exactly, to the byte, whatever their content type is', async () => {
    const payloads = ['{"ä":"€😀"}', '\ufeff{}', '', 'a\\b\\\\c\n', '\u0000'].map((text) => Buffer.from(text))
    const bytes = [...payloads, Buffer.from([0xff, 0x00, 0x80, 0x5c, 0xc3]), Buffer.alloc(3000, 0xe4)]
    for (const type of ['application/json', 'text/plain; charset=latin1', 'application/protobuf']) {
      for (const [n, payload] of bytes.entries()) {
        // One after the other: only some can be taken for text.
        await outbox.sql('delete from txbox.outbox')
        await outbox.sql(
          `insert into txbox.outbox (shard, id, topic, content_type, headers, payload)
           values (?, ?, 't', ?, '{}', decode(?, 'hex'))`,
          [SHARD, `${type} ${n}`, type, payload.toString('hex')],
        )
        const [read] = await relay.read(SHARD, LIMITS)
        expect([read!.id, Buffer.from(read!.payload).equals(payload)]).toEqual([`${type} ${n}`, true])
      }
    }
  })
})
