import { describe, expect, onTestFinished, test } from 'vitest'
import {
  GarbageCollectionError,
  type Collected,
  type GarbageCollector,
  type GarbageCollectorOptions,
} from '@txbox/gc'
import { createCollectorWith } from '../../../packages/gc/dist/create-garbage-collector.js'
import { useGarbage } from '../../support/subjects/garbage.ts'
import { Proxy } from '../../support/worlds/proxy.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const garbage = useGarbage(target)
const root = useRoot(target, mainKind(target))

/**
 * Ten failures in a row then take less than three seconds. A server reports an error before it unlocks the rows of the
 * batch, and the next batch skips locked rows, so it must not begin at once.
 */
const SOON = { delayMs: () => 80 }

/** Longer than a batch without garbage takes on a busy machine. */
const SLOW_MS = 400

function collector(options: Partial<GarbageCollectorOptions> = {}): GarbageCollector {
  const gc = createCollectorWith(SOON, { database: root.database, pauseMs: 0, ...options })
  onTestFinished(() => gc.stop())
  return gc
}

describe('batches', () => {
  test('G2 a batch is bounded, and has committed when its progress is reported', async () => {
    await garbage.expiredClaims('c', 25)
    const left: Promise<number>[] = []
    const progress: number[] = []
    await collector({ batchSize: 10, pauseMs: 100 }).runOnce({
      onProgress: ({ inbox }) => {
        progress.push(inbox)
        left.push(garbage.claimCount())
      },
    })
    expect(progress.slice(0, 3)).toEqual([10, 20, 25])
    expect((await Promise.all(left)).slice(0, 3)).toEqual([15, 5, 0])
  })

  test('G2 there is a pause between two batches', async () => {
    await garbage.expiredClaims('c', 25)
    const at: number[] = []
    await collector({ batchSize: 10, pauseMs: 200 }).runOnce({ onProgress: () => at.push(performance.now()) })
    expect(at[1]! - at[0]!).toBeGreaterThanOrEqual(199)
    expect(at[2]! - at[1]!).toBeGreaterThanOrEqual(199)
  })

  test('G2 the oldest rows are removed first', async () => {
    await garbage.expiredClaims('c', 15)
    const gc = collector({ batchSize: 10 })
    const stopping = new AbortController()
    await gc.runOnce({ signal: stopping.signal, onProgress: () => stopping.abort() })
    const keys = (await target.claims('c')).map(({ key }) => Number(key))
    expect(keys.toSorted((a, b) => a - b)).toEqual([11, 12, 13, 14, 15])
  })
})

describe('stopping', () => {
  test('G2 a signal stops a run within one batch, and the run resolves with its figures so far', async () => {
    await garbage.expiredClaims('c', 100)
    const stopping = new AbortController()
    const collected = await collector({ batchSize: 10, pauseMs: 3_600_000 }).runOnce({
      signal: stopping.signal,
      onProgress: () => stopping.abort(),
    })
    expect(collected).toMatchObject({ inbox: 10, complete: false })
    expect(await garbage.claimCount()).toBe(90)
  })

  test('G2 stop waits for the batch in flight, and ends the run with it', async () => {
    await garbage.expiredClaims('c', 100)
    await garbage.onDelete({ sleepMs: 20 })
    const gc = collector({ batchSize: 10, pauseMs: 3_600_000 })
    const running = gc.runOnce()
    await until(
      async () => (await garbage.runningBatches()).length > 0,
      () => 'a batch is in flight',
    )
    await gc.stop()
    expect(await running).toMatchObject({ inbox: 10, complete: false })
    expect(await garbage.claimCount()).toBe(90)
  })

  test('G2 stop resolves by its deadline even if the database does not answer', async () => {
    const proxy = await Proxy.to(target.address())
    const slow = target.open(mainKind(target), { through: proxy })
    onTestFinished(async () => {
      await slow.close()
      await proxy.close()
    })
    const gc = createCollectorWith(SOON, { database: slow.database })
    const held = proxy.hold(/inbox/)
    const running = gc.runOnce()
    await held.reached
    const startedAt = performance.now()
    await gc.stop({ timeoutMs: 50 })
    expect(performance.now() - startedAt).toBeLessThan(5000)
    held.letGo()
    await running
  })

  test('N1 a collector whose batch does not end reports so again and again', async () => {
    const proxy = await Proxy.to(target.address())
    const slow = target.open(mainKind(target), { through: proxy })
    onTestFinished(async () => {
      await slow.close()
      await proxy.close()
    })
    const gc = createCollectorWith(SOON, { database: slow.database }, SLOW_MS)
    const heard: number[] = []
    gc.on('slow', ({ durationMs }) => heard.push(durationMs))
    await gc.runOnce()
    expect(heard).toEqual([])
    const held = proxy.hold(/inbox/)
    const running = gc.runOnce()
    await held.reached
    await until(
      async () => heard.length >= 3,
      () => `3 × 'slow': ${heard.join()}`,
    )
    held.letGo()
    await running
    expect(heard).toEqual(heard.toSorted((a, b) => a - b))
    expect(heard[0]).toBeGreaterThanOrEqual(SLOW_MS - 1)
  })

  test('G2 the signal of the options ends the collector permanently', async () => {
    const over = new AbortController()
    const gc = collector({ signal: over.signal })
    await gc.start()
    over.abort()
    await gc.stop()
    await garbage.expiredClaims('c', 5)
    expect(await gc.runOnce()).toMatchObject({ inbox: 0, complete: false })
    expect(await garbage.claimCount()).toBe(5)
  })
})

test('G2 a started collector collects at intervals until it is stopped, and can be started again', async () => {
  const gc = collector({ intervalMs: 1000 })
  const heard: Collected[] = []
  gc.on('collected', (collected) => heard.push(collected))
  await Promise.all([gc.start(), gc.start()])
  for (const round of [1, 2]) {
    await garbage.expiredClaims('c', 5, `${round}-`)
    await until(
      async () => (await garbage.claimCount()) === 0,
      () => `round ${round} is collected`,
    )
  }
  await gc.stop()
  const runs = heard.length
  await garbage.expiredClaims('c', 5)
  await gc.start()
  await until(
    async () => (await garbage.claimCount()) === 0,
    () => 'it collects again',
  )
  await gc.stop()
  expect(heard.length).toBeGreaterThan(runs)
  expect(heard.reduce((sum, { inbox }) => sum + inbox, 0)).toBe(15)
})

describe('failures', () => {
  test('G2 a statement that exceeds its time limit halves the batch, and the run continues', async () => {
    await garbage.expiredClaims('c', 40)
    await garbage.onDelete({ sleepMs: 30 })
    const over = garbage.endLongBatches(200)
    const progress: number[] = []
    const gc = collector({ batchSize: 32 })
    const collected = await gc.runOnce({ onProgress: ({ inbox }) => progress.push(inbox) })
    await over()
    expect(collected).toMatchObject({ inbox: 40, failures: 0, complete: true })
    expect(collected.timeouts).toBeGreaterThanOrEqual(1)
    expect(progress[0]).toBeLessThanOrEqual(16)
    expect(await garbage.claimCount()).toBe(0)
    // The next run begins with twice the size that worked.
    await garbage.onDelete('nothing')
    await garbage.expiredClaims('d', 100)
    const next: number[] = []
    await gc.runOnce({ onProgress: ({ inbox }) => next.push(inbox) })
    expect(next[0]).toBe(Math.min(32, (32 / 2 ** collected.timeouts) * 2))
  })

  test('G2 ten failures in a row are one error from runOnce, and removed rows stay removed', async () => {
    await garbage.expiredClaims('c', 5)
    await garbage.onDelete('fails')
    const gc = collector()
    const error: unknown = await gc.runOnce().catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(GarbageCollectionError)
    expect(error).toMatchObject({
      code: 'TXBOX_GARBAGE_COLLECTION',
      retryable: true,
      message: expect.stringMatching(/10 batches in a row .*refused by the test/),
    })
    expect(await garbage.claimCount()).toBe(5)
    await garbage.onDelete('nothing')
    expect(await gc.runOnce()).toMatchObject({ inbox: 5, failures: 0 })
  })

  test('G2 a temporary failure is not an error', async () => {
    await garbage.expiredClaims('c', 5)
    await garbage.onDelete('fails')
    const running = collector().runOnce()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await garbage.onDelete('nothing')
    const collected = await running
    expect(collected).toMatchObject({ inbox: 5, complete: true })
  })

  test('G2 a started collector reports ten failures once, continues, and recovers', async () => {
    await garbage.expiredClaims('c', 5)
    await garbage.onDelete('fails')
    const gc = collector({ intervalMs: 1000 })
    const errors: unknown[] = []
    gc.on('error', ({ error }) => errors.push(error))
    await gc.start()
    await until(
      async () => errors.length > 0,
      () => 'the error is reported',
      20_000,
    )
    await garbage.onDelete('nothing')
    await until(
      async () => (await garbage.claimCount()) === 0,
      () => 'it goes on',
      20_000,
    )
    expect(errors.map((error) => (error as Error).name)).toEqual(['GarbageCollectionError'])
  })

  test('G2 N1 an error without a listener is a process warning', async () => {
    await garbage.expiredClaims('c', 5)
    const warned = new Promise<Error>((resolve) => process.once('warning', resolve))
    const gc = collector()
    await gc.runOnce({
      onProgress: () => {
        throw new Error('nobody listens')
      },
    })
    const warning = await warned
    expect(Reflect.get(warning, 'code')).toBe('TXBOX_UNHEARD_ERROR')
    expect(warning.message).toMatch(/^The garbage collector had an error and continues: nobody listens\./)
  })
})
