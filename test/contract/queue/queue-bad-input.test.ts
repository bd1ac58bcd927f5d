import { expect, test } from 'vitest'
import { InvalidOptionError, ReceiptExpiredError } from '@txbox/core'
import { createQueue, queueSource, type Queue, type Received } from '@txbox/queue'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

/** Every call with a receipt. */
const CALLS: Record<string, (queue: Queue, receipt: string, options?: never) => Promise<void>> = {
  delete: (queue, receipt, options) => queue.delete({ receipt }, options),
  changeVisibility: (queue, receipt) => queue.changeVisibility({ receipt }, 60_000),
  'changeVisibility to 0': (queue, receipt) => queue.changeVisibility({ receipt }, 0),
  release: (queue, receipt, options) => queue.release({ receipt }, options),
  bury: (queue, receipt, options = { error: 'never' } as never) => queue.bury({ receipt }, options),
}

/** A queue in which of two keys the first message is in flight and the second waits, beside a message without a key. */
async function busyQueue(): Promise<{ subject: QueueUnderTest; held: readonly Received[] }> {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 600_000 })
  await subject.send({ key: 'a' }, { key: 'a' }, { key: 'b' }, { key: 'b' }, {})
  const held = await subject.receive()
  expect(held).toHaveLength(3)
  return { subject, held }
}

function rowsOf(subject: QueueUnderTest): Promise<unknown> {
  return subject.sql(`select * from ${subject.table} where topic = ? order by place`)
}

async function refuses(call: () => Promise<unknown>, text: RegExp): Promise<void> {
  const error: unknown = await call().then(
    () => 'accepted',
    (thrown: unknown) => thrown,
  )
  expect(error, String(text)).toBeInstanceOf(InvalidOptionError)
  expect(String(error)).toMatch(text)
}

/** Changes the fields of a receipt. */
function forged(receipt: string, change: (fields: unknown[]) => void): string {
  const fields = JSON.parse(Buffer.from(receipt, 'base64url').toString()) as unknown[]
  change(fields)
  return Buffer.from(JSON.stringify(fields)).toString('base64url')
}

for (const [name, call] of Object.entries(CALLS)) {
  test(`Q9 a forged receipt of a message in flight is refused and changes nothing: ${name}`, async () => {
    const { subject, held } = await busyQueue()
    const before = await rowsOf(subject)
    const one = held.find(({ key }) => key !== undefined)!.receipt
    const forgeries = {
      'another receive': forged(one, (fields) => (fields[3] = '018f0000-0000-7000-8000-000000000000')),
      'a message that waits': forged(one, (fields) => (fields[2] = String(BigInt(String(fields[2])) + 1n))),
      'a place that does not exist': forged(one, (fields) => (fields[2] = '9223372036854775807')),
    }
    for (const [how, receipt] of Object.entries(forgeries)) {
      await expect(call(subject.queue, receipt), how).rejects.toThrow(ReceiptExpiredError)
    }
    expect(await rowsOf(subject)).toEqual(before)
    // The receipts that were received are still valid.
    for (const { receipt } of held) await call(subject.queue, receipt)
  })
}

test('an unknown option, or options that are no object, are refused by each call and change nothing', async () => {
  const { subject, held } = await busyQueue()
  const { queue } = subject
  const before = await rowsOf(subject)
  const [{ receipt }] = held as [Received]
  for (const name of ['delete', 'release', 'bury']) {
    const call = (options: unknown): Promise<void> => CALLS[name]!(queue, receipt, options as never)
    await refuses(() => call({ error: 'no', visibility: 1 }), new RegExp(`${name}: there is no option`))
    for (const options of [null, 'x', 7]) await refuses(() => call(options), new RegExp(name))
  }
  await refuses(() => queue.delete({ receipt }, { tx: undefined } as never), /'tx' is undefined/)
  await refuses(
    () => queue.receive({ visibilityTimeout: 1 } as never),
    /there is no option 'visibilityTimeout'/,
  )
  for (const options of [null, 'x', 7]) await refuses(() => queue.receive(options as never), /receive/)
  expect(() => queueSource(queue, { poll: 1 } as never)).toThrow(InvalidOptionError)
  expect(() => createQueue(undefined as never)).toThrow(InvalidOptionError)
  expect(await rowsOf(subject)).toEqual(before)
})

test('Q6 a visibility timeout or delay out of its bounds changes nothing, and the receipt stays valid', async () => {
  const { subject, held } = await busyQueue()
  const { queue } = subject
  const before = await rowsOf(subject)
  const [received] = held as [Received]
  for (const ms of [-1, 43_200_001, NaN, Infinity, '60000', null, undefined]) {
    await refuses(() => queue.changeVisibility(received, ms as number), /'visibilityTimeoutMs' must be/)
  }
  for (const delayMs of [-1, Infinity, NaN, '1']) {
    await refuses(() => queue.release(received, { delayMs: delayMs as number }), /'delayMs' must be/)
  }
  for (const visibilityTimeoutMs of [0, 999, 43_200_001, NaN, '1000']) {
    await refuses(
      () => queue.receive({ visibilityTimeoutMs: visibilityTimeoutMs as number }),
      /'visibilityTimeoutMs' must be/,
    )
  }
  expect(await rowsOf(subject)).toEqual(before)
  await queue.changeVisibility(received, 43_200_000)
  await queue.delete(received)
})

test('Q14 a wrong attempt id receives nothing and is not remembered', async () => {
  const subject = new QueueUnderTest(target, root)
  await subject.send({ key: 'a' }, {})
  const before = await rowsOf(subject)
  const claims = (): Promise<unknown> => target.claims('@receive')
  const remembered = await claims()
  for (const attemptId of ['', ' x', 'x'.repeat(129), 'é', 'a\tb', 7, null, {}]) {
    await refuses(() => subject.receive({ attemptId: attemptId as string }), /'attemptId' must be/)
  }
  await refuses(() => subject.receive({ attemptId: 'x', remove: true }), /exclude each other/)
  expect(await rowsOf(subject)).toEqual(before)
  expect(await claims()).toEqual(remembered)
  expect(await subject.receive({ attemptId: 'x' })).toHaveLength(2)
  expect(await claims()).toHaveLength(1)
})
