import { expect, onTestFinished, test } from 'vitest'
import type { Delivery, OpenSource, Source } from '@txbox/consumer'
import { randomFrom } from '../worlds/random.ts'
import { until } from '../worlds/until.ts'

/** A source with its own queue, and the operations that only its broker offers. */
export interface SourceUnderTest {
  readonly source: Source
  send(ids: readonly string[]): Promise<void>
  /** Breaks the connections without notice. */
  cut(): void
  /** The number of messages that are in the queue and not delivered. */
  left(): Promise<number>
  /** The ids that were rejected and kept, if the source keeps them. */
  rejected(): Promise<readonly string[]>
}

const NEVER = new AbortController().signal

/** The rules for every source. @param create makes a source with an empty queue. */
export function sourceContract(name: string, create: () => Promise<SourceUnderTest>): void {
  const open = async (
    { source }: SourceUnderTest,
    how: { prefetch?: number; failed?: (error: unknown) => void } = {},
  ): Promise<OpenSource> => {
    const opened = await source.open({ prefetch: 10, failed: () => undefined, ...how })
    onTestFinished(() => opened.close())
    return opened
  }
  const settled = (subject: SourceUnderTest, count: number): Promise<void> =>
    until(
      async () => (await subject.left()) === count,
      async () => `${count} are left, not ${await subject.left()}`,
    )

  test(`source contract, ${name}: deliveries come in order, and accepted deliveries do not come again`, async () => {
    const subject = await create()
    const opened = await open(subject)
    await subject.send(['a', 'b', 'c'])
    const deliveries = await receiveAll(opened, 3)
    expect(inOrder(subject, deliveries)).toEqual(['a', 'b', 'c'])
    expect(deliveries.map((one) => one.deliveries)).toEqual([1, 1, 1])
    for (const delivery of deliveries) await delivery.accept()
    await opened.close()
    await settled(subject, 0)
  })

  test(`source contract, ${name}: accepts in one turn settle no delivery that was received earlier`, async () => {
    const subject = await create()
    await subject.send(['a', 'b', 'c', 'd', 'e', 'f'])
    const opened = await open(subject)
    const deliveries = await receiveAll(opened, 6)
    const accepted = [0, 1, 3, 5].map((n) => deliveries[n]!)
    await Promise.all(accepted.toReversed().map((one) => one.accept()))
    await opened.close()
    await settled(subject, 2)
    const again = await receiveAll(await open(subject), 2)
    expect(again.map(({ message }) => message.id).toSorted()).toEqual(
      [2, 4].map((n) => deliveries[n]!.message.id).toSorted(),
    )
  })

  test(`source contract, ${name}: what is accepted as recorded is accepted when the source is closed, and nothing else`, async () => {
    const subject = await create()
    await subject.send(['a', 'b', 'c', 'd', 'e', 'f'])
    const opened = await open(subject)
    const deliveries = await receiveAll(opened, 6)
    const [a, b, , d, e, f] = deliveries
    await e!.accept({ recorded: true })
    await Promise.all([a!.accept(), b!.accept({ recorded: true }), d!.accept({ recorded: true })])
    await f!.accept({ recorded: true })
    await opened.close()
    await settled(subject, 1)
    const [again] = await receiveAll(await open(subject), 1)
    expect(again!.message.id).toBe(deliveries[2]!.message.id)
  })

  test(`source contract, ${name}: of several settlements the first counts`, async () => {
    const subject = await create()
    const opened = await open(subject)
    await subject.send(['a', 'b'])
    const [a, b] = await receiveAll(opened, 2)
    await a!.accept()
    await a!.retry({ delayMs: 0, error: undefined, counted: true })
    await a!.reject({ error: new Error('late') })
    await b!.accept()
    await b!.accept()
    await subject.send(['c'])
    // The connection still works: a second settlement was not sent.
    await (await receiveAll(opened, 1))[0]!.accept()
    await opened.close()
    await settled(subject, 0)
    expect(await subject.rejected()).toEqual([])
  })

  test(`source contract, ${name}: a counted retry comes again and is counted`, async () => {
    const subject = await create()
    const opened = await open(subject)
    await subject.send(['a'])
    const counts: number[] = []
    for (let n = 0; n < 3; n += 1) {
      const [delivery] = await receiveAll(opened, 1)
      counts.push(delivery!.deliveries)
      if (n < 2) await delivery!.retry({ delayMs: 0, error: new Error('again'), counted: true })
      else await delivery!.accept()
    }
    expect(counts).toEqual(subject.source.traits.countsDeliveries ? [1, 2, 3] : [1, 2, 2])
    await opened.close()
    await settled(subject, 0)
  })

  test(`source contract, ${name}: a source that keeps rejected messages keeps them`, async () => {
    const subject = await create()
    const opened = await open(subject)
    await subject.send(['a', 'b'])
    const [a, b] = await receiveAll(opened, 2)
    await a!.reject({ error: new Error('never') })
    await b!.accept()
    await opened.close()
    await settled(subject, 0)
    if (!subject.source.traits.keepsRejected) return
    await until(
      async () => (await subject.rejected()).join() === a!.message.id,
      () => 'what was rejected is kept',
    )
  })

  test(`source contract, ${name}: no more deliveries than the prefetch are unsettled, and close gives back the unsettled ones`, async () => {
    const subject = await create()
    const ids = Array.from({ length: 30 }, (_, n) => `m${n}`)
    await subject.send(ids)
    const opened = await open(subject, { prefetch: 7 })
    const deliveries = await receiveAll(opened, 7)
    await settled(subject, 23)
    const more = new AbortController()
    setTimeout(() => more.abort(), 50)
    expect(await opened.receive(10, { signal: more.signal })).toEqual([])
    await deliveries[0]!.accept()
    const [next] = await receiveAll(opened, 1)
    const earlier = deliveries.map(({ message }) => message.id)
    if (subject.source.traits.ordersKeys) expect(earlier).not.toContain(next!.message.id)
    else expect(next!.message.id).toBe('m7')
    await opened.close()
    expect(deliveries.slice(1).every(({ lost }) => lost.aborted)).toBe(true)
    await settled(subject, 29)
  })

  test(`source contract, ${name}: after a lost connection settlements resolve and change nothing, and another open receives again`, async () => {
    const subject = await create()
    if (subject.source.traits.leaseMs !== undefined) return outlivesConnection(subject, open)
    const failures: unknown[] = []
    const opened = await open(subject, { failed: (error) => void failures.push(error) })
    await subject.send(['a', 'b', 'c'])
    const deliveries = await receiveAll(opened, 3)
    const receiving = expect(opened.receive(1, { signal: NEVER })).rejects.toThrow()
    subject.cut()
    await receiving
    expect(failures.length).toBe(1)
    expect(deliveries.every(({ lost }) => lost.aborted)).toBe(true)
    const again = await open(subject)
    await deliveries[0]!.accept()
    await deliveries[1]!.reject({ error: new Error('late') })
    await deliveries[2]!.retry({ delayMs: 0, error: undefined, counted: true })
    const redelivered = await receiveAll(again, 3)
    expect(redelivered.map(({ message }) => message.id).toSorted()).toEqual(['a', 'b', 'c'])
    expect(redelivered.every((one) => one.deliveries >= 2)).toBe(true)
    for (const delivery of redelivered) await delivery.accept()
    await again.close()
    await settled(subject, 0)
    expect(await subject.rejected()).toEqual([])
  })

  test(`source contract, ${name}: receive resolves with nothing when it is aborted`, async () => {
    const subject = await create()
    const opened = await open(subject)
    const stop = new AbortController()
    const receiving = opened.receive(1, { signal: stop.signal })
    stop.abort()
    expect(await receiving).toEqual([])
    await subject.send(['a'])
    expect((await receiveAll(opened, 1)).length).toBe(1)
  })

  test(`source contract, ${name}: each of 1,000 deliveries ends as its random verdict says`, async () => {
    const subject = await create()
    const ids = Array.from({ length: 1000 }, (_, n) => `m${n}`)
    await subject.send(ids)
    const opened = await open(subject, { prefetch: 50 })
    const next = randomFrom(20_261_123)
    const accepted: string[] = []
    const rejected: string[] = []
    while (accepted.length + rejected.length < ids.length) {
      const deliveries = await opened.receive(20, { signal: NEVER })
      await Promise.all(
        deliveries.map((delivery) => {
          const { id } = delivery.message
          const verdict = next()
          if (verdict < 0.2) {
            return delivery.retry({ delayMs: 0, error: new Error('again'), counted: verdict < 0.1 })
          }
          const ends = verdict < 0.4 ? rejected : accepted
          ends.push(id)
          return verdict < 0.4 ? delivery.reject({ error: new Error('never') }) : delivery.accept()
        }),
      )
    }
    expect([...accepted, ...rejected].toSorted()).toEqual(ids.toSorted())
    await opened.close()
    await settled(subject, 0)
    if (!subject.source.traits.keepsRejected) return
    await until(
      async () => (await subject.rejected()).length >= rejected.length,
      async () => `${rejected.length} are kept: ${(await subject.rejected()).length}`,
    )
    expect((await subject.rejected()).toSorted()).toEqual(rejected.toSorted())
  })
}

/** With a lease, deliveries survive a broken connection, and their settlements count. */
async function outlivesConnection(
  subject: SourceUnderTest,
  open: (subject: SourceUnderTest) => Promise<OpenSource>,
): Promise<void> {
  const opened = await open(subject)
  await subject.send(['a', 'b', 'c', 'd'])
  const deliveries = await receiveAll(opened, 4)
  const [a, b, c, d] = deliveries
  subject.cut()
  await new Promise((resolve) => setTimeout(resolve, 200))
  expect(deliveries.map(({ lost }) => lost.aborted)).toEqual([false, false, false, false])
  await a!.accept()
  await b!.reject({ error: new Error('never') })
  await c!.retry({ delayMs: 0, error: undefined, counted: true })
  const [again] = await receiveAll(opened, 1)
  expect(again).toMatchObject({ message: { id: c!.message.id }, deliveries: 2 })
  await opened.close()
  expect([again!, d!].map(({ lost }) => lost.aborted)).toEqual([true, true])
  await again!.accept()
  await d!.reject({ error: new Error('late') })
  const another = await open(subject)
  const back = await receiveAll(another, 2)
  expect(back.map(({ message }) => message.id).toSorted()).toEqual(
    [c, d].map((one) => one!.message.id).toSorted(),
  )
  for (const delivery of back) await delivery.accept()
  expect(await subject.left()).toBe(0)
  expect(await subject.rejected()).toEqual([b!.message.id])
}

/** The ids of the deliveries, in their order if the source has one for messages without a key. */
function inOrder({ source }: SourceUnderTest, deliveries: readonly Delivery[]): readonly string[] {
  const ids = deliveries.map(({ message }) => message.id)
  return source.traits.ordersKeys ? ids.toSorted() : ids
}

/** Receives exactly this many deliveries. */
async function receiveAll(opened: OpenSource, count: number): Promise<Delivery[]> {
  const deliveries: Delivery[] = []
  while (deliveries.length < count) {
    deliveries.push(...(await opened.receive(count - deliveries.length, { signal: NEVER })))
  }
  return deliveries
}
