import { createHash } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { InvalidMessageError, SchemaError, isTxboxError, portsKey } from '@txbox/core'
import type { DatabasePorts } from '@txbox/core/ports'
import { createGarbageCollector } from '@txbox/gc'
import { createOutbox } from '@txbox/outbox'
import { createRelay } from '@txbox/relay'
import { Broker } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { Proxy } from '../../support/worlds/proxy.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { outboxOf } from '../../support/subjects/relay-under-test.ts'
import { SenderUnderTest, type Sent } from '../../support/subjects/sender-under-test.ts'
import { onEachKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Each is refused, whatever else is in the array. */
const refused: Record<string, Sent> = {
  'F1 an empty id': { deduplicationId: '' },
  'F1 an id of 129 characters': { deduplicationId: 'x'.repeat(129) },
  'F1 an id with a space': { deduplicationId: 'a b' },
  'F1 an id that is no ASCII': { deduplicationId: 'ä' },
  'F1 an id with a control character': { deduplicationId: 'a\u007f' },
  'F1 an id that is a number': { deduplicationId: 7 as never },
  'F3 a header of that name': { deduplicationId: 'x', headers: { 'deduplication-id': 'x' } },
  'F3 a header of that name in another case': { deduplicationId: 'x', headers: { 'Deduplication-Id': 'y' } },
  'F7 no id, and no content that stands in for it': {},
}

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  for (const [what, sent] of Object.entries(refused)) {
    test(`${what} is refused; nothing of the array was written, and the transaction is fine`, async () => {
      const sender = new SenderUnderTest(target, root)
      const transaction = await root.begin()
      const good = await sender.sendIn(transaction, { deduplicationId: 'good' })
      for (const array of [[sent], [{ deduplicationId: 'new' }, sent, { deduplicationId: 'x' }]]) {
        await expect(sender.sendAllIn(transaction, array)).rejects.toThrow(InvalidMessageError)
      }
      await transaction.commit()
      expect((await outbox.backlog()).map(({ id }) => id)).toEqual([good.id])
      expect(await sender.remembered()).toEqual(['["good"]'])
    })
  }

  test('F1 without the option deduplication an id is refused, and a header of that name is an ordinary header of the sender', async () => {
    const plain = outboxOf(root)
    const transaction = await root.begin()
    for (const deduplicationId of ['x', '']) {
      const messages = [
        { topic: 't', payload: 1 },
        { topic: 't', payload: 2, deduplicationId },
      ]
      await expect(plain.publish(transaction.tx, messages)).rejects.toThrow(/option 'deduplication'/)
    }
    const headers = { 'deduplication-id': 'own' }
    const own = { topic: 't', payload: 3, headers, deduplicationId: undefined }
    const { id, duplicate } = await plain.publish(transaction.tx, own)
    await transaction.commit()
    expect(duplicate).toBe(false)
    expect((await outbox.backlog()).map((row) => row.id)).toEqual([id])
    expect(await published(root)).toEqual([headers])
  })

  test('F3 the consumer gets the id, given or made, as a header beside those of the sender', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    await sender.sendAll([
      { deduplicationId: 'given', key: 'k', headers: { h: '1', ['__proto__']: 'p' } },
      { payload: 'body', key: 'k' },
    ])
    await sender.send({ deduplicationId: 'scheduled', key: 'k', payload: 3, deliverAt: new Date(0) })
    const headers = await published(root)
    expect(headers.map((each) => each['deduplication-id']!).toSorted()).toEqual(
      ['given', sha256('"body"'), 'scheduled'].toSorted(),
    )
    expect(headers.find((each) => each['deduplication-id'] === 'given')).toMatchObject({ h: '1' })
  })

  test('F2 a message with deliverAt is deduplicated when it is sent', async () => {
    const sender = new SenderUnderTest(target, root)
    const later = { deduplicationId: 'x', deliverAt: new Date(Date.now() + 3_600_000) }
    const first = await sender.send(later)
    expect(await sender.send({ deduplicationId: 'x' })).toEqual({ id: first.id, duplicate: true })
    expect(await sender.sendAll([later, { deduplicationId: 'y' }])).toMatchObject([
      { duplicate: true },
      { duplicate: false },
    ])
    expect([(await outbox.backlog()).length, (await outbox.parked()).length]).toEqual([1, 1])
  })

  test('F2 an outbox with lockKeys and deduplication stores and refuses as usual', async () => {
    const both = createOutbox({ database: root.database, deduplication: {}, lockKeys: true })
    const { topic } = new SenderUnderTest(target, root)
    const transaction = await root.begin()
    const message = (deduplicationId: string, key: string) => ({ topic, payload: 1, deduplicationId, key })
    const outcomes = await both.publish(transaction.tx, [
      message('x', 'a'),
      message('y', 'b'),
      message('x', 'c'),
    ])
    expect(await both.publish(transaction.tx, message('y', 'd'))).toEqual({
      id: outcomes[1]!.id,
      duplicate: true,
    })
    await transaction.commit()
    expect(outcomes.map(({ duplicate }) => duplicate)).toEqual([false, false, true])
    expect((await outbox.backlog()).map(({ key }) => key ?? '').toSorted()).toEqual(['a', 'b'])
  })

  test('F6 a message that cannot be stored leaves no history, if the sender commits all the same', async () => {
    const real = root.database[portsKey]
    const failing: Partial<DatabasePorts> = {
      bind: (handle) => real.bind(handle),
      inbox: real.inbox,
      outbox: { append: () => Promise.reject(new InvalidMessageError('too long for the server')) },
    }
    const broken = { engine: root.database.engine, [portsKey]: failing } as never
    const options = { contentBased: true }
    const sender = new SenderUnderTest(target, { database: broken, begin: () => root.begin() }, options)
    await new SenderUnderTest(target, root, options).send({ payload: 'of another topic' })
    const transaction = await root.begin()
    for (const array of [
      [{ payload: 1 }],
      [{ payload: 1 }, { deduplicationId: 'x', payload: 2 }, { payload: 1 }],
    ]) {
      await expect(sender.sendAllIn(transaction, array)).rejects.toThrow('too long for the server')
    }
    await transaction.commit()
    expect(await sender.remembered()).toEqual([])
  })

  test('a claim of @publish that is not txbox’s is a SchemaError, and nothing of the array is stored or remembered', async () => {
    const sender = new SenderUnderTest(target, root)
    const ports = root.database[portsKey]
    const transaction = await root.begin()
    const key = JSON.stringify([sender.topic, 'foreign'])
    const claim = { consumer: '@publish', key, correlationId: undefined, retentionMs: 60_000 }
    await ports.inbox.claim(await ports.bind(transaction.tx), claim)
    const array = [{ deduplicationId: 'x' }, { deduplicationId: 'foreign' }]
    for (const sent of [array, array.slice(1)]) {
      await expect(sender.sendAllIn(transaction, sent)).rejects.toThrow(SchemaError)
    }
    await transaction.commit()
    expect([await sender.remembered(), await outbox.backlogSize()]).toEqual([['["foreign"]'], 0])
  })

  test('F6 a commit that overtakes the send: no id is remembered without its message, or the error says so', async () => {
    const { proxy, through } = await rootThroughProxy(target, kind)
    for (const sent of [[{ deduplicationId: 'x' }], [{ deduplicationId: 'x' }, { deduplicationId: 'y' }]]) {
      const sender = new SenderUnderTest(target, through)
      await sender.send({ deduplicationId: 'before' })
      await outbox.clear()
      const transaction = await through.begin()
      const held = proxy.hold(/insert into[^;]*inbox/i)
      const sending = sender.sendAllIn(transaction, sent).catch((error: unknown) => error)
      await held.reached
      const committing = transaction.commit()
      held.letGo()
      await committing
      const error = await sending
      expect(isTxboxError(error) && error.code).toBe('TXBOX_NOT_IN_TRANSACTION')
      expect(await outbox.backlogSize()).toBe(0)
      const isLost = (await sender.remembered()).length > 1
      expect(String(error).includes('a resend within the window is reported as a duplicate')).toBe(isLost)
    }
  })

  test('a collector removes the ids whose window has passed, and no others', async () => {
    const sender = new SenderUnderTest(target, root, { windowMs: 1000 })
    const longer = new SenderUnderTest(target, root)
    await sender.sendAll([{ deduplicationId: 'x' }, { deduplicationId: 'y' }])
    await longer.send({ deduplicationId: 'x' })
    const [claim] = await sender.claims()
    await target.past(claim!.expiresAt)
    await createGarbageCollector({ database: root.database }).runOnce()
    expect(await sender.remembered()).toEqual([])
    expect(await longer.remembered()).toEqual(['["x"]'])
    expect(await sender.send({ deduplicationId: 'x' })).toMatchObject({ duplicate: false })
  })

  test('I13 an array costs the claims of a batch and one statement, however many messages it has', async () => {
    const proxy = await Proxy.to(target.address())
    const through = target.open(kind, { through: proxy })
    await through.ready?.()
    onTestFinished(async () => {
      await through.close()
      await proxy.close()
    })
    // A transaction that notifies has one statement more.
    const silent = { notify: false }
    const byId = new SenderUnderTest(target, through, {}, silent)
    const byContent = new SenderUnderTest(target, through, { contentBased: true }, silent)
    const numbered = (count: number, from: number): Sent[] =>
      Array.from({ length: count }, (_, n) => ({
        deduplicationId: `${from + n}`,
        payload: `${from + n} of ${count}`,
      }))
    const transaction = await through.begin()
    const cost = async (sender: SenderUnderTest, sent: readonly Sent[]): Promise<number> => {
      proxy.countFromHere()
      if (sent.length === 1) await sender.sendIn(transaction, sent[0]!)
      else await sender.sendAllIn(transaction, sent)
      return proxy.roundTrips - (kind.extraRoundTrips?.perCall ?? 0)
    }
    await cost(byId, numbered(2, 0))
    await cost(byContent, numbered(2, 0))
    const { fresh, duplicate, freshBatch, mixedBatch } = target.costs
    expect(await cost(byId, numbered(1, 10))).toBe(fresh + 1)
    expect(await cost(byId, numbered(1, 10))).toBe(duplicate)
    for (const count of [2, 500]) {
      const from = count * 10
      expect(await cost(byId, numbered(count, from))).toBe(freshBatch + 1)
      expect(await cost(byId, numbered(count, from))).toBe(mixedBatch)
      expect(await cost(byId, numbered(count, from + 1))).toBe(mixedBatch + 1)
      // With both id and content: one statement more removes the claims of the contents.
      expect(await cost(byContent, numbered(count, from))).toBe(freshBatch + 2)
      expect(await cost(byContent, numbered(count, from))).toBe(mixedBatch + 1)
    }
    await transaction.rollback()
  })

  test('O3 ten thousand messages in one call, of which every second is a duplicate', async () => {
    const sender = new SenderUnderTest(target, root, { contentBased: true })
    const sent = Array.from({ length: 10_000 }, (_, n) => ({
      deduplicationId: `${n - (n % 2)}`,
      id: `m${n}`,
      payload: n,
    }))
    const outcomes = await sender.sendAll(sent)
    expect(outcomes.every(({ duplicate }, n) => duplicate === (n % 2 === 1))).toBe(true)
    expect(outcomes.every(({ id }, n) => id === `m${n - (n % 2)}`)).toBe(true)
    expect(await outbox.backlogSize()).toBe(5000)
    expect(await sender.remembered()).toHaveLength(5000)
  })
})

test('createOutbox refuses wrong options of deduplication when it is called', () => {
  const database = target.detached()
  for (const deduplication of [{ windowMs: 999 }, { windowMS: 5000 }, true, null, { scope: 'topic' }]) {
    expect(() => createOutbox({ database, deduplication: deduplication as never })).toThrow(
      expect.objectContaining({ code: 'TXBOX_INVALID_OPTION' }),
    )
  }
})

/** The headers of all that the relay publishes. */
async function published(root: Root): Promise<Readonly<Record<string, string>>[]> {
  const broker = new Broker()
  const relay = createRelay({ database: root.database, publisher: broker.publisher() })
  await relay.drain()
  await relay.stop()
  return broker.log.map(({ message }) => message.headers)
}
