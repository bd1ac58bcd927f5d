import { expect, test } from 'vitest'
import { InvalidOptionError, ReceiptExpiredError, portsKey } from '@txbox/core'
import type { QueueReceipt } from '@txbox/core/ports'
import { createQueue, type Queue, type Receipt } from '@txbox/queue'
import { QueueUnderTest, idsOf } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

/** Every call with a receipt. */
const CALLS: Record<string, (queue: Queue, receipt: Receipt) => Promise<void>> = {
  delete: (queue, receipt) => queue.delete(receipt),
  changeVisibility: (queue, receipt) => queue.changeVisibility(receipt, 60_000),
  'changeVisibility to 0': (queue, receipt) => queue.changeVisibility(receipt, 0),
  release: (queue, receipt) => queue.release(receipt),
  'release uncounted': (queue, receipt) => queue.release(receipt, { counted: false, delayMs: 60_000 }),
  bury: (queue, receipt) => queue.bury(receipt, { error: new Error('never') }),
}

const ENDS: Record<string, (subject: QueueUnderTest, receipt: Receipt) => Promise<unknown>> = {
  'after the timeout': (subject) => subject.expire(),
  'after it was received again': async (subject) => {
    await subject.expire()
    expect(await subject.receive()).toHaveLength(1)
  },
  'after a release': ({ queue }, receipt) => queue.release(receipt),
  'after an uncounted release with a delay': ({ queue }, receipt) =>
    queue.release(receipt, { counted: false, delayMs: 60_000 }),
  'after changeVisibility(0)': ({ queue }, receipt) => queue.changeVisibility(receipt, 0),
  'after it was deleted': ({ queue }, receipt) => queue.delete(receipt),
  'after it was buried': ({ queue }, receipt) => queue.bury(receipt, { error: 'never' }),
}

for (const key of [undefined, 'a']) {
  const having = key === undefined ? 'without a key' : 'with a key'
  for (const [when, end] of Object.entries(ENDS)) {
    test(`Q9 ${when}, every call with the receipt is refused and changes nothing: ${having}`, async () => {
      const subject = new QueueUnderTest(target, root)
      await subject.send(key === undefined ? {} : { key })
      const { receipt } = await subject.receiveOne()
      await end(subject, { receipt })
      const before = await rows(subject)
      for (const call of Object.values(CALLS)) {
        await expect(call(subject.queue, { receipt })).rejects.toThrow(ReceiptExpiredError)
      }
      expect(await rows(subject)).toEqual(before)
    })
  }

  test(`Q9 a receipt is plain text that another process can use: ${having}`, async () => {
    const subject = new QueueUnderTest(target, root)
    await subject.send(key === undefined ? {} : { key })
    const { receipt } = await subject.receiveOne()
    expect(receipt).toMatch(/^[\w-]{1,1000}$/)
    await subject.twin(root).delete(JSON.parse(JSON.stringify({ receipt })) as Receipt)
    expect(await subject.size()).toBe(0)
  })

  test(`Q9 a receipt that was changed by one character is refused and changes nothing: ${having}`, async () => {
    const subject = new QueueUnderTest(target, root)
    await subject.send(key === undefined ? {} : { key }, { key: 'b' }, { key: 'b' })
    const received = await subject.receive()
    const { receipt } = received.find((each) => each.key === key)!
    const before = await rows(subject)
    for (let at = 0; at < receipt.length; at += 1) {
      const changed = receipt.slice(0, at) + (receipt[at] === 'A' ? 'B' : 'A') + receipt.slice(at + 1)
      await expect(subject.queue.delete({ receipt: changed })).rejects.toThrow(ReceiptExpiredError)
    }
    for (const forged of [
      `${receipt}A`,
      receipt.slice(1),
      `${receipt}=`,
      ` ${receipt}`,
      '',
      'A'.repeat(100_000),
    ]) {
      await expect(subject.queue.delete({ receipt: forged })).rejects.toThrow(ReceiptExpiredError)
    }
    expect(await rows(subject)).toEqual(before)
    await subject.queue.delete({ receipt })
  })

  test(`Q9 a receipt that is wrong about whether its message has a key is refused by the store: ${having}`, async () => {
    const subject = new QueueUnderTest(target, root)
    const store = root.database[portsKey].queue({ statementTimeoutMs: 10_000 })
    const { name: queue } = subject.queue
    await subject.send(key === undefined ? {} : { key }, key === undefined ? {} : { key })
    const request = { queue, limit: 1, visibilityTimeoutMs: 60_000, maxReceives: 10, remove: false }
    const [received] = await store.receive({ ...request, attempt: undefined })
    const { topic, place, receipt, ordered } = received!
    expect(ordered).toBe(key !== undefined)
    const before = await rows(subject)
    const forged: QueueReceipt = { topic, place, receipt, ordered: !ordered }
    expect(await store.settle(undefined, [forged])).toEqual([false])
    expect(await rows(subject)).toEqual(before)
    expect(await store.settle(undefined, [{ topic, place, receipt, ordered }])).toEqual([true])
  })
}

test('Q9 a receipt of another queue is refused and changes nothing, also under hostile names', async () => {
  const names = ['a', 'a/b', "a'b", 'ü🙂', '\u0001"\\', 'x'.repeat(80)]
  const subjects = names.map((name) => new QueueUnderTest(target, root, { name }))
  for (const subject of subjects) {
    await subject.send({ key: 'a' })
    const { receipt } = await subject.receiveOne()
    for (const stranger of subjects) {
      if (stranger === subject) continue
      for (const call of Object.values(CALLS)) {
        const refused = call(stranger.queue, { receipt })
        await expect(refused).rejects.toThrow(ReceiptExpiredError)
        await expect(refused).rejects.toThrow(/the receipt is of the queue/)
      }
    }
    await subject.queue.delete({ receipt })
    expect(await subject.size()).toBe(0)
  }
})

/** The same receipt, rewritten to name another queue. */
function rewritten({ receipt }: Receipt, queue: string): Receipt {
  const fields = JSON.parse(Buffer.from(receipt, 'base64url').toString()) as unknown[]
  fields[1] = queue
  return { receipt: Buffer.from(JSON.stringify(fields)).toString('base64url') }
}

for (const key of [undefined, 'a']) {
  test(`Q9 a receipt that was rewritten to name another queue is refused and changes nothing: ${key === undefined ? 'without a key' : 'with a key'}`, async () => {
    const [subject, stranger] = [new QueueUnderTest(target, root), new QueueUnderTest(target, root)]
    const other = stranger.queue
    const messages = [{}, {}, {}].map((_, n) => (key === undefined ? {} : { key: `${key}${n}` }))
    await subject.send(...messages)
    const received = await subject.receive()
    const forged = received.map((each) => rewritten(each, other.name))
    expect(forged.length).toBe(3)
    const before = await rows(subject)
    const refused = async (work: Promise<unknown>): Promise<void> => {
      await expect(work).rejects.toThrow(ReceiptExpiredError)
      expect(await rows(subject)).toEqual(before)
    }
    for (const call of Object.values(CALLS)) await refused(call(other, forged[0]!))
    await refused(root.database.transact((tx) => other.delete(forged[0]!, { tx })))
    // Concurrent calls share a statement.
    const together = await Promise.allSettled(forged.map((each) => other.delete(each)))
    expect(together.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    await refused(
      root.database.transact((tx) => Promise.all(forged.map((each) => other.delete(each, { tx })))),
    )
    for (const each of received) await subject.queue.delete(each)
    expect(await subject.size()).toBe(0)
  })
}

test('Q9 a value that is not a receipt is refused, and the error shows nothing of the value', async () => {
  const subject = new QueueUnderTest(target, root)
  await subject.send({})
  const receipt = (fields: unknown): string => Buffer.from(JSON.stringify(fields)).toString('base64url')
  const { name } = subject.queue
  const uuid = '018f0000-0000-7000-8000-000000000000'
  const hostile: unknown[] = [
    undefined,
    null,
    'secret',
    {},
    [],
    { receipt: 7 },
    { receipt: receipt([2, name, '1', uuid, false]) },
    { receipt: receipt([1, name, '0', uuid, false]) },
    { receipt: receipt([1, name, '9223372036854775808', uuid, false]) },
    { receipt: receipt([1, name, 1, uuid, false]) },
    { receipt: receipt([1, name, '1; secret', uuid, false]) },
    { receipt: receipt([1, name, '1', 'secret', false]) },
    { receipt: receipt([1, name, '1', uuid, 'true']) },
    { receipt: receipt([1, name, '1', uuid]) },
    { receipt: receipt([1, name, '1', uuid, false, 1]) },
    { receipt: receipt('secret') },
  ]
  for (const each of hostile) {
    const error: unknown = await subject.queue.delete(each as Receipt).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ReceiptExpiredError)
    expect(String(error)).not.toContain('secret')
  }
  await expect(subject.queue.delete({ receipt: receipt([1, name, '1', uuid, false]) })).rejects.toThrow(
    ReceiptExpiredError,
  )
  expect(await subject.size()).toBe(1)
})

test('Q9 of several receipts, the invalid receipts do not keep the valid ones from settling their messages', async () => {
  const subject = new QueueUnderTest(target, root)
  const store = root.database[portsKey].queue({ statementTimeoutMs: 10_000 })
  await subject.send({ key: 'a' }, {}, { key: 'b' }, {})
  const request = { queue: subject.queue.name, limit: 10, maxReceives: 10, remove: false, attempt: undefined }
  const received = await store.receive({ ...request, visibilityTimeoutMs: 60_000 })
  const wrong = received.map((each, n) =>
    n % 2 === 0 ? each : { ...each, receipt: '018f0000-0000-7000-8000-000000000000' },
  )
  expect(await store.extend(wrong, 60_000)).toEqual([true, false, true, false])
  expect(await store.settle(undefined, wrong)).toEqual([true, false, true, false])
  expect(await store.settle(undefined, received)).toEqual([false, true, false, true])
  expect(await subject.size()).toBe(0)
})

test('Q9 of two receipts of one message in one call only the valid one counts', async () => {
  const subject = new QueueUnderTest(target, root)
  const ports = root.database[portsKey]
  const store = ports.queue({ statementTimeoutMs: 10_000 })
  for (const how of ['alone', 'in a transaction'] as const) {
    await subject.send({ key: 'a' }, {})
    const request = {
      queue: subject.queue.name,
      limit: 10,
      maxReceives: 10,
      remove: false,
      attempt: undefined,
    }
    const stale = await store.receive({ ...request, visibilityTimeoutMs: 60_000 })
    await subject.expire()
    const valid = await store.receive({ ...request, visibilityTimeoutMs: 60_000 })
    expect([stale.length, valid.length]).toEqual([2, 2])
    const both = [stale[0]!, ...valid, stale[1]!]
    expect(await store.extend(both, 60_000)).toEqual([false, true, true, false])
    const settled =
      how === 'alone'
        ? await store.settle(undefined, both)
        : await ports.transact((_, session) => store.settle(session, both), {})
    expect(settled).toEqual([false, true, true, false])
    expect(await subject.size()).toBe(0)
  }
})

test('options out of their bounds are refused, with the bound, before anything is sent to the server', async () => {
  const { database } = root
  const queue = createQueue({ database, name: 'bounds' })
  const made: [object, RegExp][] = [
    [{ name: '' }, /'name' must be text of 1 to 80 characters/],
    [{ name: 'x'.repeat(81) }, /1 to 80/],
    [{ name: 'a\0' }, /NUL/],
    [{ name: 'q', visibilityTimeoutMs: 999 }, /from 1000 to 43200000/],
    [{ name: 'q', visibilityTimeoutMs: 43_200_001 }, /from 1000 to 43200000/],
    [{ name: 'q', maxReceives: 0 }, /from 1 to 1000/],
    [{ name: 'q', maxReceives: 1001 }, /from 1 to 1000/],
    [{ name: 'q', deduplication: { windowMs: 1 } }, /createQueue: deduplication/],
    [{ name: 'q', lockKeys: true }, /there is no option 'lockKeys'/],
    [{ name: 'q', database: {} }, /'database'/],
  ]
  for (const [options, text] of made) {
    expect(() => createQueue({ database, ...options } as never)).toThrow(InvalidOptionError)
    expect(() => createQueue({ database, ...options } as never)).toThrow(text)
  }
  const received: [object, RegExp][] = [
    [{ limit: 0 }, /from 1 to 1000/],
    [{ limit: 1001 }, /from 1 to 1000/],
    [{ limit: 1.5 }, /from 1 to 1000/],
    [{ waitMs: -1 }, /from 0 to 20000/],
    [{ waitMs: 20_001 }, /from 0 to 20000/],
    [{ visibilityTimeoutMs: 999 }, /from 1000 to 43200000/],
    [{ visibilityTimeoutMs: NaN }, /from 1000 to 43200000/],
    [{ remove: 'yes' }, /true or false/],
    [{ remove: true, attemptId: 'x' }, /exclude each other/],
    [{ signal: {} }, /an AbortSignal/],
    [{ max: 10 }, /there is no option 'max'/],
  ]
  for (const [options, text] of received) await refuses(queue.receive(options), text)
  const receipt = { receipt: 'x' }
  await refuses(queue.changeVisibility(receipt, 43_200_001), /from 0 to 43200000/)
  await refuses(queue.changeVisibility(receipt, -1), /from 0 to 43200000/)
  await refuses(queue.changeVisibility(receipt, undefined as never), /from 0 to 43200000/)
  await refuses(queue.release(receipt, { delayMs: -1 }), /from 0 to/)
  await refuses(queue.release(receipt, { counted: 1 as never }), /true or false/)
  await refuses(queue.bury(receipt, {} as never), /'error' must be/)
  expect(idsOf(await queue.receive())).toEqual([])
})

async function refuses(call: Promise<unknown>, text: RegExp): Promise<void> {
  await expect(call).rejects.toThrow(InvalidOptionError)
  await expect(call).rejects.toThrow(text)
}

/** The rows of the queue, without what the database keeps for itself. */
async function rows(subject: QueueUnderTest): Promise<unknown> {
  return subject.sql(`select * from ${subject.table} where topic = ? order by place`)
}
