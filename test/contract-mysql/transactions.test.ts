import { afterEach, describe, expect, test } from 'vitest'
import {
  InvalidMessageError,
  NotInTransactionError,
  TransactionAbortedError,
  portsKey,
  type TransactionHandle,
} from '@txbox/core'
import type { Claim, ConnectedPorts, EncodedMessage } from '@txbox/core/ports'
import type { MysqlSession } from '../../packages/mysql/src/connection/session.ts'
import { InboxUnderTest, WAYS } from '../support/subjects/inbox-under-test.ts'
import { outboxOf, publishAll } from '../support/subjects/relay-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  const root = useRoot(target, kind, { max: 1 })
  const otherRoot = useRoot(target, kind, { max: 1 })

  describe.each([
    'create table if not exists side_effect (n int)',
    'truncate table ballast',
    'start transaction',
    '/* another */ begin',
    '-- another\n# one\nbegin',
    '/*!50000 begin */',
    'commit; start transaction',
    'rollback; begin; select 1',
  ])('I7 fn runs statements that end its transaction: %s', (statements) => {
    test.for(WAYS)(
      'process rejects with TransactionAbortedError, and does not report processed (%s)',
      async (way) => {
        const subject = new InboxUnderTest(target, root)
        const delivered = subject.deliver(way, { id: 'x' }, async (tx, message, context) => {
          await subject.handle(tx, message, context)
          for (const statement of statements.split(';')) await target.exec(tx, statement)
        })
        await expect(delivered).rejects.toThrow(TransactionAbortedError)
      },
    )
  })

  test.for(['commit', 'rollback'])(
    'I7 fn calls a procedure that ends its transaction by %s and begins another one: TransactionAbortedError',
    async (end) => {
      const subject = new InboxUnderTest(target, root)
      const name = `replace_by_${end}`
      await target.sql(`drop procedure if exists ${name}`)
      await target.sql(`create procedure ${name}() begin ${end}; start transaction; end`)
      for (const way of WAYS) {
        const delivered = subject.deliver(way, { id: way }, async (tx) => {
          await target.exec(tx, `call ${name}()`)
        })
        await expect(delivered, way).rejects.toThrow(TransactionAbortedError)
      }
    },
  )

  test('I7 fn runs statements with unknown effects that do not affect its transaction: processed', async () => {
    const subject = new InboxUnderTest(target, root)
    await target.sql('drop procedure if exists harmless')
    await target.sql('create procedure harmless() begin do 1; end')
    for (const way of WAYS) {
      const outcome = await subject.deliver(way, { id: way }, async (tx, message, context) => {
        await target.exec(tx, 'call harmless()')
        await target.exec(tx, 'savepoint mine')
        await target.exec(tx, 'call harmless()')
        await target.exec(tx, 'rollback to savepoint mine')
        return subject.handle(tx, message, context)
      })
      expect(outcome).toMatchObject({ status: 'processed' })
    }
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([2, ['process', 'run']])
  })

  test('I7 fn does not wait for the statements that replace its transaction by another one', async () => {
    const subject = new InboxUnderTest(target, root)
    for (let time = 0; time < 20; time += 1) {
      const unawaited: Promise<unknown>[] = []
      const delivered = subject.process({ id: `m${time}` }, (tx) => {
        for (const statement of ['commit', 'begin']) unawaited.push(target.exec(tx, statement))
      })
      await expect(delivered, `time ${time}`).rejects.toThrow(TransactionAbortedError)
      await Promise.allSettled(unawaited)
    }
  })

  test('I1 outside a transaction a duplicate is refused too, because there is no transaction', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'x' })
    const transaction = await root.begin()
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await target.exec(transaction.tx, 'commit')
    const again = subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await expect(again).rejects.toThrow(NotInTransactionError)
    await transaction.rollback()
    expect(subject.calls).toBe(1)
  })

  test('a failed statement that does not end the transaction is no reason to roll back', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const [what, fail] of Object.entries(target.recoverable)) {
      const outcome = await subject.process({ id: what }, async (tx, message, context) => {
        await expect(fail(tx)).rejects.toThrow()
        return subject.handle(tx, message, context)
      })
      expect(outcome, what).toMatchObject({ status: 'processed' })
    }
    expect(await subject.effects()).toBe(Object.keys(target.recoverable).length)
  })

  test('I7 a lock wait timeout ends the transaction if innodb_rollback_on_timeout is on', async () => {
    const subject = new InboxUnderTest(target, root)
    const [row] = await target.sql('select cast(@@innodb_rollback_on_timeout + 0 as char) as rolls_back')
    await target.sql('insert into counters (name, n) values (?, 0)', [subject.consumer])
    const other = target.open(kind)
    const holder = await other.begin()
    const touch = 'update counters set n = n + 1 where name = ?'
    await holder.exec(touch, [subject.consumer])
    const transaction = await root.begin()
    await target.limitLockWait(transaction, 1)
    const delivered = subject.inbox.process(transaction.tx, { id: 'x' }, async (tx, message, context) => {
      await expect(target.exec(tx, touch, [subject.consumer])).rejects.toMatchObject({ errno: 1205 })
      await subject.handle(tx, message, context)
    })
    if (row?.['rolls_back'] === '1') await expect(delivered).rejects.toThrow(TransactionAbortedError)
    else expect(await delivered).toMatchObject({ status: 'processed' })
    await transaction.rollback()
    await other.close()
    expect([await subject.claimedKeys(), await subject.effects()]).toEqual([[], 0])
  })

  test('after DDL has ended a transaction nothing is written, and the connection can still be used', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    await subject.inbox.process(transaction.tx, { id: 'before' }, () => undefined)
    await target.exec(transaction.tx, 'create table if not exists side_effect (n int)')
    const expected = kind.library === 'kysely' ? TransactionAbortedError : NotInTransactionError
    await expect(subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)).rejects.toThrow(expected)
    await expect(outboxOf(root).publish(transaction.tx, { topic: 't', payload: 1 })).rejects.toThrow(expected)
    await transaction.rollback()
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, ['before']])
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
  })

  test('a connection returns to its pool with its original settings', async () => {
    const settings = async (): Promise<unknown> => {
      const transaction = await root.begin()
      const rows = await transaction.exec(
        `show session variables where variable_name in ('transaction_isolation', 'tx_isolation', 'autocommit',
           'innodb_lock_wait_timeout', 'sql_mode', 'time_zone', 'character_set_client', 'max_statement_time')`,
      )
      await transaction.rollback()
      return rows
    }
    const before = await settings()
    const subject = new InboxUnderTest(target, root)
    for (const isolation of ['read committed', 'serializable', 'repeatable read'] as const) {
      await root.database.transact(
        async (tx) => subject.inbox.process(tx, { id: isolation }, subject.handle),
        {
          isolation,
        },
      )
    }
    await subject.inbox.run({ id: 'x' }, subject.handle)
    await expect(
      root.database.transact(() => Promise.reject(new Error('mine')), { isolation: 'serializable' }),
    ).rejects.toThrow('mine')
    await publishAll(root, [{ topic: 't', payload: 1 }])
    expect(await settings()).toEqual(before)
  })

  test('transact does not report a transaction as committed that a deadlock has rolled back', async () => {
    const subject = new InboxUnderTest(target, root)
    const [abort] = Object.values(target.abortions)
    const transacted = root.database.transact(async (tx) => {
      await target.effect(tx, subject.consumer)
      await abort!(tx).catch(() => undefined)
    })
    await expect(transacted).rejects.toThrow(TransactionAbortedError)
    expect(await subject.effects()).toBe(0)
  })

  describe('after a deadlock the server continues as if the transaction were still open', () => {
    const [abort] = Object.values(target.abortions)
    // As in many releases of MariaDB, the next statement opens another transaction.
    const goOn = async (tx: TransactionHandle, name: string): Promise<void> => {
      await expect(abort!(tx)).rejects.toThrow()
      await target.exec(tx, 'set session autocommit = 0')
      await target.effect(tx, name)
    }
    afterEach(async () => {
      const transaction = await root.begin()
      await transaction.exec('set session autocommit = 0')
      // Restores the setting.
      await transaction.rollback()
    })

    test.for(WAYS)(
      'I7 fn swallows the deadlock: TransactionAbortedError, and nothing is stored (%s)',
      async (way) => {
        const subject = new InboxUnderTest(target, root)
        const delivered = subject.deliver(way, { id: 'x' }, (tx) => goOn(tx, subject.consumer))
        await expect(delivered).rejects.toThrow(TransactionAbortedError)
        expect([await subject.claimedKeys(), await subject.effects()]).toEqual([[], 0])
      },
    )

    test('transact does not commit the statements after the deadlock', async () => {
      const subject = new InboxUnderTest(target, root)
      const transacted = root.database.transact((tx) => goOn(tx, subject.consumer))
      await expect(transacted).rejects.toThrow(TransactionAbortedError)
      expect(await subject.effects()).toBe(0)
    })

    test('nothing is claimed or published after the deadlock until ROLLBACK', async () => {
      const subject = new InboxUnderTest(target, root)
      const expected = kind.library === 'kysely' ? TransactionAbortedError : NotInTransactionError
      const transaction = await root.begin()
      await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
      await goOn(transaction.tx, subject.consumer)
      await expect(subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)).rejects.toThrow(
        expected,
      )
      await expect(outboxOf(root).publish(transaction.tx, { topic: 't', payload: 1 })).rejects.toThrow(
        expected,
      )
      await transaction.rollback()
      expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
      expect(await subject.effects()).toBe(1)
    })
  })

  test('O13 a packet that the server would refuse is refused before it is sent: nothing is written, and the transaction is intact', async () => {
    const ports = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
    const transaction = await root.begin()
    // As if this were the server's limit: a test must not change a setting of the whole server.
    const session = (await ports.bind(transaction.tx)) as MysqlSession
    session.server = { ...session.server, maxStatementBytes: 1_000_000 }
    const stored = (id: string, bytes: number): EncodedMessage => ({
      id,
      shard: 0,
      topic: kind.name,
      key: 'k',
      type: undefined,
      contentType: 'application/octet-stream',
      payload: new Uint8Array(bytes),
      headers: {},
      correlationId: undefined,
    })
    const error: unknown = await ports.outbox
      .append(session, [stored('small one', 10), stored('large one', 800_000)])
      .catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(InvalidMessageError)
    expect(String(error)).toMatch(/large one.*max_allowed_packet/s)
    // Together they need more than one packet.
    const halves = Array.from({ length: 4 }, (_, n) => stored(`half ${n}`, 400_000))
    await ports.outbox.append(session, halves)
    await transaction.commit()
    const rows = await target.sql('select id from txbox_outbox where topic = ? order by seq', [kind.name])
    expect(rows.map((row) => row['id'])).toEqual(halves.map(({ id }) => id))
  })

  test('I13 a batch that does not fit into one packet is claimed by several statements; a single claim that does not fit is refused', async () => {
    const ports = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
    const consumer = `packets/${kind.name}`
    const claimOf = (n: number): Claim => ({
      consumer,
      key: `${String(n).padStart(3, '0')} ${'ü'.repeat(100)}`,
      correlationId: n === 0 ? '\u20ac'.repeat(200) : undefined,
      retentionMs: 60_000,
    })
    const claims = Array.from({ length: 100 }, (_, n) => claimOf((n * 37) % 100))
    const claimed = async (maxStatementBytes: number, some: readonly Claim[]): Promise<string[]> => {
      const transaction = await root.begin()
      try {
        const session = (await ports.bind(transaction.tx)) as MysqlSession
        session.server = { ...session.server, maxStatementBytes }
        const results = await ports.inbox.claimBatch(session, some)
        await transaction.commit()
        return results.map(({ status }) => status)
      } catch (error) {
        await transaction.rollback()
        throw error
      }
    }
    await expect(claimed(2500, claims)).rejects.toThrow(InvalidMessageError)
    expect(await target.claims(consumer)).toEqual([])
    expect(await claimed(5000, claims.slice(0, 50))).toEqual(Array(50).fill('won'))
    expect(await claimed(5000, claims)).toEqual([...Array(50).fill('duplicate'), ...Array(50).fill('won')])
    expect((await target.claims(consumer)).length).toBe(100)
  })

  test("I4 I13 with 'report' a batch of several statements whose last one finds a claim in flight wins the others", async () => {
    const ports = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
    const consumer = `reported/${kind.name}`
    const claims = Array.from({ length: 20 }, (_, n) => ({
      consumer,
      key: `${String(n).padStart(2, '0')} ${'ü'.repeat(100)}`,
      correlationId: undefined,
      retentionMs: 60_000,
    }))
    const winner = await otherRoot.begin()
    await ports.inbox.claim(await ports.bind(winner.tx), claims.at(-1)!)
    const transaction = await root.begin()
    const session = (await ports.bind(transaction.tx)) as MysqlSession
    session.server = { ...session.server, maxStatementBytes: 3000 }
    const results = await ports.inbox.claimBatch(session, claims, { inFlight: 'report' })
    expect(results.map(({ status }) => status)).toEqual([...Array<string>(19).fill('won'), 'in-flight'])
    await transaction.commit()
    await winner.rollback()
    expect((await target.claims(consumer)).length).toBe(19)
  })

  // Kysely does not report that a statement was outside a transaction.
  if (kind.library === 'mysql2')
    test('I13 a batch of several statements whose transaction ends between them leaves no claim behind', async () => {
      const ports = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
      const consumer = `ended/${kind.name}`
      const claims = Array.from({ length: 20 }, (_, n) => ({
        consumer,
        key: `${n} ${'ü'.repeat(100)}`,
        correlationId: undefined,
        retentionMs: 60_000,
      }))
      const transaction = await root.begin()
      const session = (await ports.bind(transaction.tx)) as MysqlSession
      session.server = { ...session.server, maxStatementBytes: 3000 }
      const claimed = ports.inbox.claimBatch(session, claims).catch((error: unknown) => error)
      const ended = target.exec(transaction.tx, 'commit')
      const outcome = await claimed
      await ended
      await transaction.rollback()
      expect(outcome).toBeInstanceOf(NotInTransactionError)
      expect(await target.claims(consumer)).toEqual([])
    })
})
