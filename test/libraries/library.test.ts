import { randomBytes, randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { NotInTransactionError, type TransactionHandle } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { InboxUnderTest } from '../support/subjects/inbox-under-test.ts'
import { libraryRoot, libraryUnderTest } from '../support/engines/library-roots.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import { idleRules } from './idle-rules.ts'
import { inboxRules } from './inbox-rules.ts'
import { rootRules } from './root-rules.ts'
import { versioningRules } from './versioning-rules.ts'

const target = useTarget()
const { exec, keptHandleJoins, nested, stray, strayDuring } = libraryUnderTest!
const kind = target.kinds[0]!
const root = useRoot(target, kind)
const isAlone = inject('needs').includes('pglite')

/** Something of the library that is no open transaction is refused, and nothing is written. */
async function refuses(handle: object): Promise<void> {
  const subject = new InboxUnderTest(target, root)
  const tx = handle as TransactionHandle
  await expect(subject.inbox.process(tx, { id: 'm' }, subject.handle)).rejects.toThrow(NotInTransactionError)
  const id = randomUUID()
  const outbox = createOutbox({ database: root.database })
  await expect(outbox.publish(tx, { id, topic: 't', payload: {} })).rejects.toThrow(NotInTransactionError)
  expect([subject.calls, await subject.claimedKeys(), await stored(id)]).toEqual([0, [], 0])
}

async function stored(id: string): Promise<number> {
  return (await target.sql(`select 1 from ${target.outboxTable} where id = ?`, [id])).length
}

describe('a handle that is not an open transaction', () => {
  for (const [name, handleOf] of Object.entries(stray ?? {})) {
    test(`${name} is refused`, () => refuses(handleOf(libraryRoot(root))))
  }
  for (const [name, during] of Object.entries(strayDuring ?? {})) {
    test(`${name} is refused`, () => during(libraryRoot(root), refuses))
  }

  test('a transaction that has ended is refused', async () => {
    const transaction = await root.begin()
    await transaction.commit()
    await refuses(transaction.tx)
  })

  test('a handle that was kept is refused, or stands for the transaction that its connection is in by then', async () => {
    const single = target.open(kind, { max: 1 })
    await single.ready?.()
    onTestFinished(() => single.close())
    const subject = new InboxUnderTest(target, single)
    let kept: object | undefined
    await libraryRoot(single).transact(async (tx) => {
      kept = tx
      await exec(tx, 'select 1 as one', [])
    })
    const joined = await libraryRoot(single).transact(async (tx) => {
      await exec(tx, 'select 1 as one', [])
      return subject.inbox.process(kept as TransactionHandle, { id: 'm' }, subject.handle).then(
        () => true,
        (error: unknown) => {
          expect(error).toBeInstanceOf(NotInTransactionError)
          return false
        },
      )
    })
    expect([joined, await subject.claimedKeys()]).toEqual(
      keptHandleJoins === true ? [true, ['m']] : [false, []],
    )
  })

  test('a transaction that ends while a call is not awaited', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    const outcome = subject.inbox
      .process(transaction.tx, { id: 'm' }, subject.handle)
      .catch((error: unknown) => error)
    await transaction.rollback().catch(() => undefined)
    await outcome
    expect([await subject.claimedKeys(), await subject.effects()]).toEqual([[], 0])
  })
})

test('O13 payloads, headers and names are stored unchanged, one by one and together', async () => {
  const outbox = createOutbox({ database: root.database })
  const text = 'Grüße, \u{1f680} \u2028 "quotes", \'\\ \\x00 %s $1 :a ? {a,NULL} \r\n\t e\u0301 \ufeff --; /*'
  const everyByte = Uint8Array.from({ length: 256 }, (_, n) => n)
  const payloads = {
    'no bytes': Buffer.alloc(0),
    'every byte, and no UTF-8': Buffer.concat([
      ...Array<Uint8Array>(24).fill(everyByte),
      Buffer.of(0xc3, 0x28),
    ]),
    'bytes that look like hex': Buffer.from('\\xdeadbeef'),
    'bytes of a text': Buffer.from(`${text}\0`),
    'many bytes': randomBytes(300_000),
  }
  const messages = ['alone', 'together'].flatMap((way) =>
    Object.entries(payloads).flatMap(([name, payload]) => [
      { id: `${name} ${way}`, topic: 't', payload },
      {
        ...{ id: `${name} ${way}, with ${text}`, topic: text, key: text, type: text, payload },
        ...{ contentType: 'application/x-test', correlationId: text, headers: { [text]: text, '': '' } },
      },
    ]),
  )
  const alone = messages.filter(({ id }) => id.includes(' alone'))
  await libraryRoot(root).transact(async (tx) => {
    for (const message of alone) await outbox.publish(tx as TransactionHandle, message)
    await outbox.publish(
      tx as TransactionHandle,
      messages.filter((message) => !alone.includes(message)),
    )
  })

  const columns = 'id, topic, type, content_type, headers, correlation_id, payload'
  const key = target.engine === 'postgres' ? 'key' : '`key`'
  const rows = await target.sql(`select ${columns}, ${key} from ${target.outboxTable}`)
  const textOf = (value: unknown): unknown =>
    value instanceof Uint8Array ? Buffer.from(value).toString() : (value ?? undefined)
  for (const message of messages) {
    const row = rows.find((each) => textOf(each['id']) === message.id)
    const headers = typeof row?.['headers'] === 'string' ? JSON.parse(row['headers']) : row?.['headers']
    expect({ ...message, payload: undefined }).toEqual({
      ...{ id: message.id, topic: textOf(row?.['topic']), key: textOf(row?.['key']) },
      ...{ type: textOf(row?.['type']), correlationId: textOf(row?.['correlation_id']), payload: undefined },
      ...('headers' in message && { headers, contentType: textOf(row?.['content_type']) }),
    })
    expect(message.payload.equals(Buffer.from(row?.['payload'] as Uint8Array)), message.id).toBe(true)
  }
  await target.sql(`delete from ${target.outboxTable}`)
})

test('O1 I2 whenever a transaction is rolled back, calls that were not awaited leave nothing', async () => {
  const subject = new InboxUnderTest(target, root)
  const outbox = createOutbox({ database: root.database })
  const ids: string[] = []
  // The later the rollback, the further the calls have come.
  for (let ticks = 0; ticks < 60; ticks++) {
    const id = randomUUID()
    ids.push(id)
    let calls: Promise<unknown> = Promise.resolve()
    const failing = libraryRoot(root).transact(async (tx) => {
      const claimed = subject.inbox.process(tx as TransactionHandle, { id }, () => undefined)
      const published = outbox.publish(tx as TransactionHandle, { id, topic: 't', payload: {} })
      calls = Promise.allSettled(ticks % 2 === 0 ? [claimed, published] : [published, claimed])
      for (let tick = 0; tick < ticks; tick++) await Promise.resolve()
      throw new Error('rolled back')
    })
    await expect(failing).rejects.toThrow()
    await calls
  }
  expect(await subject.claimedKeys()).toEqual([])
  for (const id of ids) expect(await stored(id)).toBe(0)
})

// On PostgreSQL the first error aborts the transaction.
if (target.engine !== 'postgres') {
  for (const isFailing of [true, false]) {
    const failure = isFailing ? 'a statement of the caller fails' : 'a claim finds a duplicate'
    test(`I1 O1 statements that are sent at the same time take effect, although ${failure}`, async () => {
      const subject = new InboxUnderTest(target, root)
      await subject.inbox.run({ id: 'known' }, () => undefined)
      const outbox = createOutbox({ database: root.database })
      const ids = Array.from({ length: 40 }, () => randomUUID())
      for (const [turns, id] of ids.entries()) {
        await libraryRoot(root).transact(async (tx) => {
          const own = tx as TransactionHandle
          const duplicate = subject.inbox.process(own, { id: 'known' }, subject.handle)
          const published = outbox.publish(own, { id, topic: 't', payload: {} })
          for (let turn = 0; turn < turns; turn++) await (turn % 4 === 3 ? setImmediate() : Promise.resolve())
          // Its answer may arrive together with one for txbox, so that both send the next statement in one tick.
          await exec(tx, 'select 1 as one', [])
          const sent = exec(tx, 'insert into effects (name) values (?)', [isFailing ? null : id])
          const [outcome] = await Promise.allSettled([sent, duplicate, published])
          expect(outcome.status).toBe(isFailing ? 'rejected' : 'fulfilled')
          expect(await duplicate).toMatchObject({ status: 'duplicate' })
          await published
        })
      }
      for (const id of ids)
        expect([await stored(id), await target.effects(id)]).toEqual([1, isFailing ? 0 : 1])
      await target.sql(`delete from ${target.outboxTable}`)
    })
  }
}

test('I8 a claim in a savepoint that rolls back is forgotten', async () => {
  const subject = new InboxUnderTest(target, root)
  await libraryRoot(root).transact(async (tx) => {
    const failed = nested(tx, async (inner) => {
      await subject.inbox.process(inner as TransactionHandle, { id: 'm' }, subject.handle)
      throw new Error('rolled back')
    })
    await expect(failed).rejects.toThrow('rolled back')
    const { status } = await subject.inbox.process(tx as TransactionHandle, { id: 'm' }, subject.handle)
    expect(status).toBe('processed')
  })
  expect([await subject.claimedKeys(), await subject.effects()]).toEqual([['m'], 1])
})

test('concurrent calls on a transaction and its savepoints, which share one connection, are all answered', async () => {
  const subject = new InboxUnderTest(target, root)
  const ids = Array.from({ length: 6 }, (_, n) => `m${n}`)
  await libraryRoot(root).transact(async (tx) => {
    const outcomes = ids.map((id) =>
      subject.inbox.process(tx as TransactionHandle, { id }, async () => undefined),
    )
    expect((await Promise.all(outcomes)).map(({ status }) => status)).toEqual(ids.map(() => 'processed'))
  })
  expect(await subject.claimedKeys()).toEqual(ids)
})

inboxRules(target, root, kind, isAlone)
rootRules(target, root, kind, isAlone)
if (target.engine === 'postgres') idleRules(target, kind, isAlone)
versioningRules(target, root, kind, isAlone)
