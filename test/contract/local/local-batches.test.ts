import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { PermanentError } from '@txbox/consumer'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { sortedIds } from '../../support/subjects/queue-under-test.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, onEachRoot, useRoot, useTarget, type Row } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const [one, other] = keysOfOneShard(2) as [string, string]

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 12 })

  test('L7 a batch is one transaction, and has several messages of a key in their order', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish(
      ...Array.from({ length: 12 }, (_, n) => ({ key: n % 3 === 0 ? one : 'b' })),
    )
    const batches: string[][] = []
    const open: number[] = []
    await subject.startBatches('billing', async (_tx, messages, contexts) => {
      batches.push(messages.map(({ id }) => id))
      expect(contexts.map(({ consumer }) => consumer)).toEqual(messages.map(() => subject.name()))
      const before = new Set((await outbox.transactions()).map(({ id }) => id))
      // A statement of a loop is a transaction only for a moment.
      await sleep(20)
      open.push((await outbox.transactions()).filter(({ id }) => before.has(id)).length)
    })
    await subject.settled()
    expect(Math.max(...batches.map((batch) => batch.length))).toBeGreaterThan(2)
    const effects = await subject.effectsInOrder()
    expect(effects).toEqual(batches.flat())
    for (const key of [one, 'b']) {
      const ofKey = ids.filter((_, n) => (n % 3 === 0 ? one : 'b') === key)
      expect(effects.filter((id) => ofKey.includes(id))).toEqual(ofKey)
    }
    // The handler's own transaction is the only one that is open.
    expect(Math.max(...open)).toBe(1)
  })

  test('L7 a batch of one key only: all of its messages, in order, far fewer transactions than messages', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publishTogether(Array.from({ length: 60 }, () => ({ key: one })))
    let batches = 0
    await subject.startBatches('billing', () => void (batches += 1))
    await subject.settled()
    expect(await subject.effectsInOrder()).toEqual(ids)
    expect(batches).toBeLessThanOrEqual(15)
  })

  test('L7 C26 a batch that fails is split, so that only the culprit is counted, and what follows it in its key waits', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish(...[one, one, one, other, other, 'b'].map((key) => ({ key })))
    const culprit = ids[1]!
    await subject.startBatches(
      'billing',
      (_tx, messages, contexts) => {
        const at = messages.findIndex(({ id }) => id === culprit)
        if (at !== -1 && contexts[at]!.deliveries < 3) throw new Error('the culprit')
      },
      { retry: { attempts: 5, delayMs: () => 200 } },
    )
    await subject.settled()
    const effects = await subject.effectsInOrder()
    expect(effects.toSorted()).toEqual(ids.toSorted())
    expect(effects.filter((id) => ids.slice(0, 3).includes(id))).toEqual(ids.slice(0, 3))
    expect(effects.filter((id) => ids.slice(3, 5).includes(id))).toEqual(ids.slice(3, 5))
    // The others did not wait for the culprit.
    expect(effects.indexOf(ids[5]!)).toBeLessThan(effects.indexOf(culprit))
    const counted = new Map(subject.runs.map(({ id, deliveries }) => [id, deliveries]))
    expect(ids.map((id) => counted.get(id))).toEqual(ids.map((id) => (id === culprit ? 3 : 1)))
  })

  test('L7 a culprit that never succeeds becomes a dead letter, and no other message does', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish(...[one, one, one, 'b', undefined].map((key) => ({ key })))
    await subject.startBatches(
      'billing',
      (_tx, messages) => {
        for (const { id } of messages) {
          if (id === ids[0]) throw new PermanentError('never')
          if (id === ids[3]) throw new Error('always')
        }
      },
      { retry: { attempts: 2, delayMs: () => 10 } },
    )
    await subject.settled()
    const effects = await subject.effectsInOrder()
    expect(effects.toSorted()).toEqual(sortedIds([ids[1], ids[2], ids[4]]))
    expect(effects.indexOf(ids[1]!)).toBeLessThan(effects.indexOf(ids[2]!))
    const dead = await subject.deadLetters.list({ consumer: subject.name() })
    expect(dead.map(({ id, attempts }) => [id, attempts])).toEqual([
      [ids[0], 1],
      [ids[3], 2],
    ])
  })

  test('L7 a batch leaves out the whole key of a row that is locked, and begins with the rest', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish(...[one, one, one, other, other].map((key) => ({ key })))
    const holder = await root.begin()
    // The second one of its key: neither the first one nor the third one may be handled.
    await subject.lockRow(holder, ids[1])
    await subject.startBatches('billing', () => undefined)
    await subject.hears('handled', 2)
    expect(await subject.effectsInOrder()).toEqual(ids.slice(3))
    await holder.rollback()
    await subject.settled()
    expect(await subject.effectsInOrder()).toEqual([...ids.slice(3), ...ids.slice(0, 3)])
    expect(subject.runs.every(({ deliveries }) => deliveries === 1)).toBe(true)
  })

  test('L7 a batch whose messages are not all there at its end is rolled back as a whole', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish({ key: one }, { key: 'b' }, {})
    let calls = 0
    await subject.startBatches('billing', async (tx, messages) => {
      calls += 1
      if (calls > 1) return
      const exec = (text: string, parameters?: readonly unknown[]): Promise<readonly Row[]> =>
        target.exec(tx, text, parameters)
      await subject.deleteRow({ exec }, messages.at(-1)!.id)
    })
    await subject.settled()
    expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
    expect(calls).toBeGreaterThan(1)
    expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
  })

  test('L7 L5 I7 a batch whose handler commits in the middle: none of its messages has a second effect', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish({ key: one }, { key: one }, { key: 'b' })
    await subject.startBatches('billing', async (tx, messages) => {
      if (messages.some(({ id }) => id === ids[0])) await target.exec(tx, 'commit')
    })
    await subject.settled()
    const effects = await subject.effectsInOrder()
    expect(new Set(effects).size).toBe(effects.length)
    const dead = await subject.deadLetters.list({ consumer: subject.name() })
    expect(dead.map(({ id }) => id)).toContain(ids[0])
    for (const { error } of dead) expect(error).toContain('TransactionAbortedError')
  })
})

const root = useRoot(target, mainKind(target), { max: 16 })

test('L7 L5 a batch that takes too long is rolled back, and counted for the culprit only', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish({ key: one }, { key: 'b' }, {})
  await subject.startBatches(
    'billing',
    async (_tx, messages, contexts) => {
      const at = messages.findIndex(({ id }) => id === ids[0])
      if (at === -1 || contexts[at]!.deliveries > 1) return
      await new Promise((resolve) => contexts[at]!.signal.addEventListener('abort', resolve))
    },
    { handleTimeoutMs: 300 },
  )
  await subject.settled()
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  const counted = new Map(subject.runs.map(({ id, deliveries }) => [id, deliveries]))
  expect(ids.map((id) => counted.get(id))).toEqual([2, 1, 1])
})

test('L7 a batch has at most maxSize messages, and waits for lingerMs at most', async () => {
  const subject = new LocalUnderTest(target, root)
  const sizes: number[] = []
  await subject.startBatches('billing', (_tx, messages) => void sizes.push(messages.length), {
    batch: { maxSize: 7, lingerMs: 300 },
  })
  const begunAt = performance.now()
  await subject.publish({ key: 'a' })
  await subject.hears('handled')
  expect(performance.now() - begunAt).toBeGreaterThanOrEqual(280)
  await subject.publishTogether(Array.from({ length: 40 }, (_, n) => ({ key: `k${n % 5}` })))
  await subject.settled()
  expect(Math.max(...sizes)).toBe(7)
})

test('L7 several consumers of batches of one name keep the order of each key', async () => {
  const subject = new LocalUnderTest(target, root)
  const keys = [one, other, 'b', 'c']
  for (let n = 0; n < 3; n += 1) {
    await subject.startBatches('billing', () => undefined, {
      concurrency: 2,
      batch: { maxSize: 5, lingerMs: 5 },
    })
  }
  const sent: { id: string; key: string }[] = []
  for (let round = 0; round < 8; round += 1) {
    const ids = await subject.publish(...[...keys, ...keys, ...keys].map((key) => ({ key })))
    sent.push(...ids.map((id, n) => ({ id, key: keys[n % 4]! })))
  }
  await subject.settled()
  const effects = await subject.effectsInOrder()
  expect(effects.length).toBe(sent.length)
  for (const key of keys) {
    const ids = sent.filter((message) => message.key === key).map(({ id }) => id)
    expect(
      effects.filter((id) => ids.includes(id)),
      key,
    ).toEqual(ids)
  }
})
