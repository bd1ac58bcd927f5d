import { expect, onTestFinished, test } from 'vitest'
import { DatabaseUnavailableError, portsKey } from '@txbox/core'
import type { RelayStore } from '@txbox/core/ports'
import { shardOf } from '@txbox/core/internal'
import { Broker, rejected } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  publishAll,
  RelayUnderTest,
  withRelayStore,
} from '../../support/subjects/relay-under-test.ts'
import { refusalOf } from '../../support/subjects/settlements.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
// This concerns how the relay handles a missing answer, so the library of the database makes no difference.
const root = useRoot(target, mainKind(target))
const [key] = keysOfOneShard(1) as [string]

/** A database on which the answers to the first settlements are lost, so that their results are unknown. */
function losing(lost: {
  settle?: 'done' | 'not done'
  settleParked?: 'done' | 'not done'
}): ReturnType<typeof withRelayStore> {
  const left = { ...lost }
  const settlement =
    <K extends 'settle' | 'settleParked'>(inner: RelayStore, name: K) =>
    async (...values: Parameters<RelayStore[K]>): Promise<void> => {
      const how = left[name]
      delete left[name]
      if (how !== 'not done') await (inner[name] as (...all: typeof values) => Promise<void>)(...values)
      if (how !== undefined) throw new DatabaseUnavailableError('the answer was lost')
    }
  return withRelayStore(root, (inner) => ({
    settle: settlement(inner, 'settle'),
    settleParked: settlement(inner, 'settleParked'),
  }))
}

for (const how of ['done', 'not done'] as const) {
  test(`O2 O7 after a settlement without an answer (${how}) the shard is given up, so that the settlement ends before the next term`, async () => {
    const ids = await publishAll(root, messagesOf(key, 2))
    const broker = new Broker()
    const publisher = broker.publisher({ ordering: 'per-key' })
    const subject = await RelayUnderTest.started(losing({ settle: how }), publisher)
    await subject.hears('lease-lost')
    await outbox.settled()
    const [lost] = subject.heard('lease-lost')
    expect(lost!.reason).toBe('stopped')
    await subject.hears('lease-acquired', 17)
    const terms = subject.heard('lease-acquired').filter(({ shard }) => shard === lost!.shard)
    expect(terms.map(({ term }) => term)).toEqual([lost!.term, lost!.term + 1n])
    expect(broker.ids()).toEqual(how === 'done' ? ids : [...ids, ...ids])
  })
}

test('O5 a dead letter is reported once, when it is settled, even if the answers were lost', async () => {
  const ids = await publishAll(root, messagesOf(key, 2))
  const broker = new Broker()
  const publisher = broker.publisher({
    ordering: 'per-key',
    respond: (call) =>
      call.messages.map((message, n) => {
        if (message.id === ids[0]) return rejected({ retryable: message.attempt === 1 })
        return n > 0 ? { status: 'skipped' } : call.accept(message)
      }),
  })
  const lost = { settle: 'not done', settleParked: 'not done' } as const
  const subject = await RelayUnderTest.started(losing(lost), publisher, {
    retry: { attempts: 9, delayMs: () => 1 },
  })
  await subject.hears('dead-lettered')
  await outbox.settled()
  expect(subject.heard('parked').map(({ id, attempt }) => [id, attempt])).toEqual([[ids[0], 1]])
  expect(subject.heard('dead-lettered').map(({ id, attempts }) => [id, attempts])).toEqual([[ids[0], 2]])
  expect(broker.ids()).toEqual([ids[1]])
})

const SHARD = shardOf(key)
const NAME = `outbox/${String(SHARD).padStart(2, '0')}`
const LEASES = target.engine === 'postgres' ? 'txbox.leases' : 'txbox_leases'

for (const becomes of ['accepted', 'refused'] as const) {
  test(`O7 while a settlement is in flight (${becomes}) no relay gets the lease, although it has expired`, async () => {
    const ports = root.database[portsKey]
    const store = ports.relay({ statementTimeoutMs: 20_000 })
    const leases = ports.leases()
    onTestFinished(() => leases.close())
    await publishAll(root, messagesOf(key, 1))
    const [message] = await store.read(SHARD, { messages: 10, bytes: 1000 })
    const holder = await root.begin()
    await holder.exec(`select id from ${target.outboxTable} where shard = ? and seq = ? for update`, [
      SHARD,
      String(message!.seq),
    ])
    await outbox.sql(`insert into ${LEASES} (name) values (?)`, [NAME])
    await outbox.lend(SHARD, { owner: 'me', term: 7n, forMs: 2000 })
    const lentAt = await target.now()
    const lease = { name: NAME, owner: 'me', term: 7n, crashes: 0, inFlight: undefined }
    const settling = store.settle(lease, SHARD, {
      accepted: becomes === 'accepted' ? [message!] : [],
      refused: becomes === 'refused' ? [refusalOf(message!, 600_000)] : [],
      behind: [],
    })
    await until(
      async () => (await outbox.transactions()).some(({ statement }) => statement.includes('delete')),
      () => 'the settlement waits for the row',
    )
    await target.past(new Date(lentAt.getTime() + 2000))
    const ask = () => leases.acquire([NAME], { owner: 'other', ttlMs: 60_000, limit: 1 })
    expect(await ask()).toEqual([])
    await holder.rollback()
    await settling
    expect(await ask()).toMatchObject([{ owner: 'other', term: 8n, crashes: 1 }])
    expect((await outbox.parked()).length).toBe(becomes === 'refused' ? 1 : 0)
    expect(await outbox.backlog()).toEqual([])
  })
}
