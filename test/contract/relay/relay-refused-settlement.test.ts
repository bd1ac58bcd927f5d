import { expect, test } from 'vitest'
import { Broker } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
// This concerns how the relay handles a refusal, so the library of the database makes no difference.
const root = useRoot(target, mainKind(target))
const [kept] = keysOfOneShard(1) as [string]
const [other] = keysOfOneShard(1, 7) as [string]

/** A trigger that keeps rows of this key from being deleted. */
async function keepRows(key: string): Promise<void> {
  const statements =
    target.engine === 'postgres'
      ? [
          `create function txbox.keep() returns trigger language plpgsql as
             $$ begin if old.key = '${key}' then return null; end if; return old; end $$`,
          'create trigger keep before delete on txbox.outbox for each row execute function txbox.keep()',
        ]
      : [
          `create trigger txbox_keep before delete on txbox_outbox for each row
             if old.\`key\` = '${key}' then signal sqlstate '45000' set message_text = 'this row stays'; end if`,
        ]
  for (const statement of statements) await outbox.sql(statement, [])
}

const FULL = {
  name: 'the disk is full',
  reported: 'the disk of the database server is full',
  postgres: { errcode: '53100', text: 'No space left on device' },
  mysql: { errno: 1114, text: 'The table is full' },
}
const READ_ONLY = {
  name: 'the server has become read-only',
  reported: 'the database accepts no writes',
  postgres: { errcode: '25006', text: 'cannot execute DELETE in a read-only transaction' },
  mysql: { errno: 1290, text: 'The server is running with the --read-only option' },
}

/** A trigger that fails as the server does when it refuses the deletion of this key's rows. */
async function refuseDeletes(key: string, { postgres, mysql }: typeof FULL): Promise<void> {
  const statements =
    target.engine === 'postgres'
      ? [
          `create function txbox.keep() returns trigger language plpgsql as $$ begin
             if old.key = '${key}' then raise '${postgres.text}' using errcode = '${postgres.errcode}'; end if;
             return old; end $$`,
          'create trigger keep before delete on txbox.outbox for each row execute function txbox.keep()',
        ]
      : [
          `create trigger txbox_keep before delete on txbox_outbox for each row if old.\`key\` = '${key}' then
             signal sqlstate 'HY000' set mysql_errno = ${mysql.errno}, message_text = '${mysql.text}'; end if`,
        ]
  for (const statement of statements) await outbox.sql(statement, [])
}

async function letRowsGo(): Promise<void> {
  const statements =
    target.engine === 'postgres'
      ? ['drop trigger if exists keep on txbox.outbox', 'drop function if exists txbox.keep()']
      : ['drop trigger if exists txbox_keep']
  for (const statement of statements) await outbox.sql(statement, [])
}

test('O18 messages that the database refuses to delete are published once, and reported with growing pauses; other shards continue', async () => {
  await keepRows(kept)
  try {
    const broker = new Broker()
    const stuck = await publishAll(root, messagesOf(kept, 3))
    const subject = await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
    await subject.hears('error', 4)
    const going = await publishAll(root, messagesOf(other, 5))
    await broker.received(8)
    expect(broker.ids(kept)).toEqual(stuck)
    expect(broker.ids(other)).toEqual(going)
    expect(subject.heard('published').every(({ count }) => count > 0)).toBe(true)
    expect(subject.heard('lease-lost')).toEqual([])
    const [{ error }] = subject.heard('error') as [{ error: unknown }]
    expect(String(error)).toMatch(target.engine === 'postgres' ? /polic|trigger|privilege/ : /this row stays/)
    const errorsBefore = subject.heard('error').length
    await letRowsGo()
    await outbox.settled()
    expect(broker.ids(kept)).toEqual(stuck)
    expect(subject.heard('error').length - errorsBefore).toBeLessThan(3)
    // The shard continues.
    const later = await publishAll(root, messagesOf(kept, 2, 4))
    await broker.received(10)
    expect(broker.ids(kept)).toEqual([...stuck, ...later])
  } finally {
    await letRowsGo()
  }
})

test('O7 O18 a shard that was lost while its settlement was refused is taken again by the same relay', async () => {
  await keepRows(kept)
  try {
    const broker = new Broker()
    const ids = await publishAll(root, messagesOf(kept, 3))
    const subject = await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
    await subject.hears('error', 3)
    await outbox.expireLeases()
    await subject.hears('lease-lost', 16)
    await letRowsGo()
    await outbox.settled()
    expect(broker.firstIds(kept)).toEqual(ids)
    await subject.relay.drain()
  } finally {
    await letRowsGo()
  }
})

test('O10 O18 stop repeats a refused settlement until its deadline, and no longer', async () => {
  await keepRows(kept)
  try {
    const broker = new Broker()
    const ids = await publishAll(root, messagesOf(kept, 3))
    const subject = await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
    await subject.hears('error', 2)
    const stopping = subject.relay.stop({ timeoutMs: 10_000 })
    await letRowsGo()
    await stopping
    expect(await outbox.backlog()).toEqual([])
    expect(broker.ids(kept)).toEqual(ids)
    expect(await outbox.heldLeases()).toBe(0)
  } finally {
    await letRowsGo()
  }
})

test.for([FULL, READ_ONLY])(
  'O18 messages that cannot be deleted because $name are published once, and the errors say what to do',
  async (refusal) => {
    await refuseDeletes(kept, refusal)
    try {
      const broker = new Broker()
      const stuck = await publishAll(root, messagesOf(kept, 3))
      const subject = await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
      await subject.hears('error', 4)
      const [{ error }] = subject.heard('error') as [{ error: unknown }]
      expect(error).toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE', retryable: true })
      expect(String(error)).toContain(refusal.reported)
      await letRowsGo()
      await outbox.settled()
      expect(broker.ids(kept)).toEqual(stuck)
      expect(subject.heard('lease-lost')).toEqual([])
      await subject.relay.stop()
    } finally {
      await letRowsGo()
    }
  },
)
