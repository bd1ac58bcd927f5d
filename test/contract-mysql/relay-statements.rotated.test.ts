import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { LeaseLostError, portsKey } from '@txbox/core'
import type {
  BacklogMessage,
  BacklogRow,
  ConnectedPorts,
  Lease,
  RelayStore,
  OutboxSettlement,
} from '@txbox/core/ports'
import { fill } from '../../packages/mysql/src/connection/literals.ts'
import { relayStatements } from '../../packages/mysql/src/relay/relay-statements.ts'
import { tablesOf } from '../../packages/mysql/src/connection/identifiers.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { ISOLATIONS, useRoot, useTarget, type OpenTransaction } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = target.kinds.find(({ library }) => library === 'mysql2')!
const SHARD = 3
const NAME = 'outbox/03'

function accepted(rows: readonly BacklogRow[]): OutboxSettlement {
  return { accepted: rows, refused: [], behind: [] }
}

describe.each(ISOLATIONS)('at %s', (isolation) => {
  const root = useRoot(target, kind, { isolation, max: 6 })
  let relay: RelayStore
  let lease: Lease
  let rows: readonly BacklogMessage[]

  beforeAll(() => {
    const ports = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
    relay = ports.relay({ statementTimeoutMs: 10_000 })
  })
  beforeEach(async () => {
    await outbox.fill(160)
    await target.sql(
      "insert into txbox_leases (name, owner, term, expires_at) values (?, 'me', 7, utc_timestamp(6) + interval 1 hour)",
      [NAME],
    )
    lease = { name: NAME, owner: 'me', term: 7n, crashes: 0, inFlight: undefined }
    rows = await relay.read(SHARD, { messages: 1000, bytes: 1_000_000 })
    expect(rows.length).toBe(10)
  })

  async function takeOver(): Promise<OpenTransaction> {
    const other = await root.begin()
    await other.exec("update txbox_leases set owner = 'you', term = term + 1 where name = ?", [NAME])
    return other
  }

  test('O7 a settlement waits for a takeover that is in flight, and settles nothing when the lease was taken', async () => {
    const other = await takeOver()
    const settling = expect(relay.settle(lease, SHARD, accepted(rows))).rejects.toThrow(LeaseLostError)
    await target.blocked(1)
    await other.commit()
    await settling
    expect(await outbox.backlogSize()).toBe(160)
  })

  test('O7 a settlement that waits for a takeover is applied when the takeover is rolled back', async () => {
    const other = await takeOver()
    const settling = relay.settle(lease, SHARD, accepted(rows))
    await target.blocked(1)
    await other.rollback()
    await settling
    expect(await outbox.backlogSize()).toBe(150)
  })

  test('O7 another term, another owner, or an expired lease settles nothing', async () => {
    for (const stale of [
      { ...lease, term: 6n },
      { ...lease, owner: 'you' },
      { ...lease, name: 'outbox/04' },
    ]) {
      await expect(relay.settle(stale, SHARD, accepted(rows))).rejects.toThrow(LeaseLostError)
    }
    await outbox.expireLeases()
    await expect(relay.settle(lease, SHARD, accepted(rows))).rejects.toThrow(LeaseLostError)
    expect(await outbox.backlogSize()).toBe(160)
  })

  test('O19 a late statement is cancelled, and an equal statement of another connection is not', async () => {
    const ports = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
    const impatient = ports.relay({ statementTimeoutMs: 2000 })
    const other = await takeOver()
    const late = expect(impatient.settle(lease, SHARD, accepted(rows))).rejects.toThrow()
    await pause(1000)
    const equal = impatient.settle(lease, SHARD, accepted(rows))
    equal.catch(() => undefined)
    try {
      await target.blocked(2)
      await late
      await target.blocked(1)
    } finally {
      await other.rollback()
    }
    await equal
    expect(await outbox.backlogSize()).toBe(150)
  })

  test('messages that were deleted by hand do not make the lease count as lost', async () => {
    await relay.settle(lease, SHARD, accepted(rows.slice(0, 4)))
    await relay.settle(lease, SHARD, accepted(rows.slice(0, 4)))
    await relay.settle(lease, SHARD, accepted(rows))
    expect(await outbox.backlogSize()).toBe(150)
  })

  test("O12 a settlement deletes rows next to a producer's uncommitted row without waiting for it", async () => {
    const producer = await root.begin()
    await producer.exec(
      "insert into txbox_outbox (shard, id, topic, content_type, headers, payload, created_at) values (?, 'open', 't', 't', '{}', '', utc_timestamp(6))",
      [SHARD],
    )
    await relay.settle(lease, SHARD, accepted([...rows, { ...rows.at(-1)!, seq: rows.at(-1)!.seq + 1000n }]))
    await producer.commit()
    expect((await outbox.backlog()).filter(({ shard }) => shard === SHARD).map(({ id }) => id)).toEqual([
      'open',
    ])
  })

  test('numbers beyond 2^53 are exact', async () => {
    const large = 2n ** 63n + 12_345n
    await target.sql(`update txbox_outbox set seq = ${large} where shard = ? and seq = ${rows[9]!.seq}`, [
      SHARD,
    ])
    const read = await relay.read(SHARD, { messages: 1000, bytes: 1_000_000 })
    expect(read.map(({ seq }) => seq)).toEqual([...rows.slice(0, 9).map(({ seq }) => seq), large])
    await relay.settle(lease, SHARD, accepted(read.slice(-1)))
    expect((await outbox.backlog()).filter(({ shard }) => shard === SHARD).length).toBe(9)
    await target.sql('alter table txbox_outbox auto_increment = 1000')
  })

  test('each accepted row is looked up by its whole key', async () => {
    const { settle } = relayStatements(tablesOf('test', 'txbox_'), target.engine as 'mysql')
    const list = `[${rows.map(({ seq, stamp }) => `[${seq},${stamp}]`).join(',')}]`
    const statement = fill(settle, [list, SHARD, Buffer.from(NAME), Buffer.from('me'), 7n])
    const format = target.engine === 'mysql' ? 'format = traditional ' : ''
    const plan = await target.sql(`explain ${format}${statement}`)
    expect(plan.map((row) => [row['table'], row['type'], row['key']])).toEqual([
      ['l', 'const', 'PRIMARY'],
      expect.arrayContaining(['ALL', null]),
      ['o', 'eq_ref', 'PRIMARY'],
    ])
  })
})
