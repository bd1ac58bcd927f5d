import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { businessKey, fingerprint, messageId, InvalidMessageError } from '@txbox/core'
import { InboxUnderTest, WAYS, type Message } from '../../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  for (const way of WAYS) {
    test(`K1 each of two consumers runs once for one message (${way})`, async () => {
      const message = { id: randomUUID() }
      const billing = new InboxUnderTest(target, root)
      const shipping = new InboxUnderTest(target, root)
      for (const subject of [billing, shipping, billing, shipping]) await subject.deliver(way, message)
      expect([await billing.effects(), await shipping.effects()]).toEqual([1, 1])
    })
  }

  test('K1 a message that arrives through two queues runs once', async () => {
    const id = randomUUID()
    const byQueue = new InboxUnderTest(target, root)
    const byPartition = new InboxUnderTest(target, root, { consumer: byQueue.consumer })
    const first = await byQueue.process({ id, headers: { queue: 'a', partition: '1' } })
    const second = await byPartition.inbox.run(
      { id, headers: { queue: 'b', partition: '7' } },
      byPartition.handle,
    )
    expect([first.status, second.status]).toEqual(['processed', 'duplicate'])
    expect(await byQueue.effects()).toBe(1)
  })

  test('K2 keys compare byte for byte', async () => {
    const subject = new InboxUnderTest(target, root)
    const composed = '\u00e11'
    const decomposed = 'a\u03011'
    const ids = [
      'A1',
      'a1',
      composed,
      decomposed,
      'A1 ',
      ' A1',
      'A1\t',
      'A１',
      'Ａ1',
      'ß',
      'ss',
      '\u{1f600}',
      "a'1",
      'a\\1',
    ]
    for (const id of ids)
      expect(await subject.process({ id }), JSON.stringify(id)).toMatchObject({ status: 'processed' })
    for (const id of ids)
      expect(await subject.process({ id }), JSON.stringify(id)).toMatchObject({ status: 'duplicate' })
    expect(await subject.effects()).toBe(ids.length)
  })

  test('K2 a key with a NUL character is a key like others', async () => {
    const subject = new InboxUnderTest(target, root)
    const outcomes = []
    for (const id of ['a\0b', 'a\0c', 'a', 'a\0b']) outcomes.push((await subject.process({ id })).status)
    expect(outcomes).toEqual(['processed', 'processed', 'processed', 'duplicate'])
  })

  test('K3 keys that do not fit their column are not truncated', async () => {
    const subject = new InboxUnderTest(target, root)
    const lengths = [255, 256, 511, 512, 513, 767, 3072, 100_000]
    for (const length of lengths) {
      const [one, other] = ['x'.repeat(length - 1) + '1', 'x'.repeat(length - 1) + '2']
      const statuses = []
      for (const id of [one, other, one, other]) {
        const outcome = await subject.process({ id })
        expect(outcome.key).toBe(id)
        statuses.push(outcome.status)
      }
      expect(statuses, `${length} characters`).toEqual(['processed', 'processed', 'duplicate', 'duplicate'])
    }
    const stored = await subject.claimedKeys()
    expect(stored.length).toBe(lengths.length * 2)
    expect(Math.max(...stored.map((key) => Buffer.byteLength(key)))).toBeLessThanOrEqual(512)
  })

  test('K3 the length of a key is counted in bytes', async () => {
    const subject = new InboxUnderTest(target, root)
    const statuses = []
    for (const id of ['é'.repeat(256), 'é'.repeat(257), '€'.repeat(300), 'é'.repeat(257) + 'x']) {
      statuses.push((await subject.process({ id })).status, (await subject.process({ id })).status)
    }
    expect(statuses).toEqual(Array.from({ length: 4 }, () => ['processed', 'duplicate']).flat())
  })

  test('K3 a key that spells the stored form of a hashed key is not that key', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'y'.repeat(600) })
    const [stored] = await subject.claimedKeys()
    expect(await subject.process({ id: stored ?? '' })).toMatchObject({ status: 'processed' })
  })

  test('K3 consumers of 100 characters in any script are distinguished', async () => {
    const long = '名'.repeat(99)
    const one = new InboxUnderTest(target, root, { consumer: `${long}1` })
    const other = new InboxUnderTest(target, root, { consumer: `${long}2` })
    const message = { id: randomUUID() }
    expect([(await one.process(message)).status, (await other.process(message)).status]).toEqual([
      'processed',
      'processed',
    ])
  })

  test('K4 a composite key is unambiguous', async () => {
    const subject = new InboxUnderTest(target, root, {
      key: businessKey((m: Message) => m.payload as string[]),
    })
    const keys = [
      ['a|b', 'c'],
      ['a', 'b|c'],
      ['a', 'b', 'c'],
      ['a,b', 'c'],
      ['a"', 'b'],
      ['a', '"b'],
      ['ab', 'c'],
      ['abc'],
    ]
    for (const payload of keys)
      expect(await subject.process({ id: '-', payload })).toMatchObject({ status: 'processed' })
    for (const payload of keys)
      expect(await subject.process({ id: '-', payload })).toMatchObject({ status: 'duplicate' })
    expect(await subject.effects()).toBe(keys.length)
  })

  test('K4 a text that spells a composite key is not that key', async () => {
    const subject = new InboxUnderTest(target, root, {
      key: businessKey((m: Message) => m.payload as string | string[]),
    })
    const composite = await subject.process({ id: '-', payload: ['order-7', 'charge'] })
    expect(composite.key).toBe('["order-7","charge"]')
    expect(await subject.process({ id: '-', payload: composite.key })).toMatchObject({ status: 'processed' })
  })

  test('K4 a composite key of one part and a plain key are each unique', async () => {
    const subject = new InboxUnderTest(target, root, {
      key: businessKey((m: Message) => m.payload as string | string[]),
    })
    const long = 'z'.repeat(600)
    const statuses = []
    for (const payload of [['x'], 'x', [long], long, ['x'], 'x', [long], long]) {
      statuses.push((await subject.process({ id: '-', payload })).status)
    }
    expect(statuses).toEqual([...Array(4).fill('processed'), ...Array(4).fill('duplicate')])
  })

  const unusable: [string, unknown][] = [
    ['empty', ''],
    ['null', null],
    ['missing', undefined],
    ['a number', 7],
    ['an object', { a: 1 }],
    ['an empty list', []],
    ['a list with an empty part', ['a', '']],
    ['a list with a missing part', ['a', undefined]],
    ['a list with null', ['a', null]],
    ['a lone surrogate', 'a\ud800'],
  ]
  test.for(unusable)('K5 a key that is %s is refused before anything is written', async ([, id]) => {
    const subject = new InboxUnderTest(target, root, { key: (message) => message.payload as string })
    const transaction = await root.begin()
    await expect(
      subject.inbox.process(transaction.tx, { id: 'x', payload: id }, subject.handle),
    ).rejects.toThrow(InvalidMessageError)
    // The transaction is still usable.
    await target.effect(transaction.tx, subject.consumer)
    await transaction.commit()
    await expect(subject.inbox.run({ id: 'x', payload: id }, subject.handle)).rejects.toThrow(
      InvalidMessageError,
    )
    expect(subject.calls).toBe(0)
    expect(await subject.claimedKeys()).toEqual([])
    expect(await subject.effects()).toBe(1)
  })

  test('K5 a message without an id is refused, and gets no random key', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const message of [{ id: '' }, {}, { id: null }, { id: undefined, payload: 1 }]) {
      await expect(subject.process(message as Message)).rejects.toThrow(InvalidMessageError)
      await expect(subject.inbox.run(message as Message, subject.handle)).rejects.toThrow(InvalidMessageError)
    }
    expect(await subject.claimedKeys()).toEqual([])
  })

  test('K6 a correlation id is not the key, and is stored beside the claim', async () => {
    const subject = new InboxUnderTest(target, root)
    const statuses = []
    for (const message of [
      { id: 'm1', correlationId: 'c1' },
      { id: 'm2', correlationId: 'c1' },
      { id: 'm1', correlationId: 'c2' },
      { id: 'm3' },
    ]) {
      statuses.push((await subject.process(message)).status)
    }
    expect(statuses).toEqual(['processed', 'processed', 'duplicate', 'processed'])
    const claims = await target.claims(subject.consumer)
    expect(claims.map((claim) => [claim.key, claim.correlationId])).toEqual([
      ['m1', 'c1'],
      ['m2', 'c1'],
      ['m3', null],
    ])
  })

  test('K6 a correlation id is part of the key if the user includes it', async () => {
    const subject = new InboxUnderTest(target, root, {
      key: businessKey((m: Message) => [m.correlationId ?? '', String(m.payload)]),
    })
    const statuses = []
    for (const [correlationId, step] of [
      ['c', 'a'],
      ['c', 'b'],
      ['d', 'a'],
      ['c', 'a'],
    ]) {
      statuses.push((await subject.process({ id: randomUUID(), correlationId, payload: step })).status)
    }
    expect(statuses).toEqual(['processed', 'processed', 'processed', 'duplicate'])
  })

  test('K6 source and id together are the identity of a message that has a source', async () => {
    const subject = new InboxUnderTest(target, root, { key: messageId() })
    const statuses = []
    for (const source of ['/shop', '/bank', undefined, '/shop'])
      statuses.push((await subject.process({ id: '1', source })).status)
    expect(statuses).toEqual(['processed', 'processed', 'processed', 'duplicate'])
  })

  test('K7 with a fingerprint, two deliveries with different ids and headers are one message', async () => {
    const subject = new InboxUnderTest(target, root, { key: fingerprint({ exclude: ['/sentAt'] }) })
    const first = { id: '1', headers: { try: '1' }, payload: { order: 7, lines: [1, 2], sentAt: 'noon' } }
    const again = { id: '2', headers: { try: '2' }, payload: { sentAt: 'one', lines: [1, 2], order: 7 } }
    const other = { id: '3', payload: { order: 7, lines: [2, 1], sentAt: 'noon' } }
    const statuses = []
    for (const message of [first, again, other]) statuses.push((await subject.process(message)).status)
    expect(statuses).toEqual(['processed', 'duplicate', 'processed'])
  })

  test('K7 a payload that has no fingerprint is refused before anything is written', async () => {
    const subject = new InboxUnderTest(target, root, { key: fingerprint() })
    await expect(subject.process({ id: '1', payload: { n: Number.NaN } })).rejects.toThrow(
      InvalidMessageError,
    )
    await expect(subject.process({ id: '1' })).rejects.toThrow(InvalidMessageError)
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
  })
})
