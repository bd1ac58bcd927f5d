import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { LifeCycle, stoppedBy } from '@txbox/core/internal'

/** Work that ends when the test says so. */
class Work extends LifeCycle {
  /** The time limit of each call of `end`. */
  readonly limits: number[] = []
  readonly ending = Promise.withResolvers<void>()

  constructor() {
    super('Relay')
  }

  start(): void {
    this.refuseStopped('start')
  }

  breakDown(error: unknown): void {
    this.fail(error)
  }

  protected end(timeoutMs: number): Promise<void> {
    this.limits.push(timeoutMs)
    return this.ending.promise
  }

  async hasStopped(): Promise<boolean> {
    let hasStopped = false
    void this.stopped.then(() => (hasStopped = true))
    await turn()
    return hasStopped
  }
}

describe('work that is stopped once', () => {
  test('each stop passes its time limit on, and all of them and stopped resolve with the end', async () => {
    const work = new Work()
    const stops = [work.stop(), work.stop({ timeoutMs: 5 })]
    expect(work.limits).toEqual([10_000, 5])
    expect(await work.hasStopped()).toBe(false)
    work.ending.resolve()
    await Promise.all([...stops, work.stopped])
    expect(await work.hasStopped()).toBe(true)
  })

  test('from its stop on it does not start', async () => {
    const work = new Work()
    work.start()
    void work.stop()
    expect(() => work.start()).toThrow(
      new InvalidOptionError('start: this relay has been stopped. Create another with createRelay.'),
    )
  })

  test.for([[{ timeoutMs: -1 }], [{ timeoutMs: 3_600_001 }], [{ timeout: 5 }]])(
    'stop refuses %j, and the work continues',
    async ([options]) => {
      const work = new Work()
      await expect(work.stop(options as never)).rejects.toThrow(InvalidOptionError)
      expect(work.limits).toEqual([])
      expect(() => work.start()).not.toThrow()
    },
  )

  test('await using stops it', async () => {
    const work = new Work()
    work.ending.resolve()
    {
      await using used = work
      used.start()
    }
    expect(work.limits).toEqual([10_000])
    expect(await work.hasStopped()).toBe(true)
  })

  test('work that cannot continue stops, and stopped rejects also after its end', async () => {
    const work = new Work()
    work.breakDown(new Error('the schema is wrong'))
    expect(work.limits).toEqual([10_000])
    work.ending.resolve()
    // Nobody handles the rejection in this turn: it must not end the process.
    await turn()
    await expect(work.stopped).rejects.toThrow('the schema is wrong')
  })
})

describe('a signal that stops work', () => {
  test('when it is aborted later', () => {
    const controller = new AbortController()
    const work = stoppedBy(controller.signal, new Work())
    expect(work.limits).toEqual([])
    controller.abort()
    expect(work.limits).toEqual([10_000])
  })

  test('when it is aborted already: the work does not start', () => {
    const work = stoppedBy(AbortSignal.abort(), new Work())
    expect(work.limits).toEqual([10_000])
    expect(() => work.start()).toThrow(InvalidOptionError)
  })

  test('it forgets work that has stopped', async () => {
    for (const broken of [false, true]) {
      const controller = new AbortController()
      const work = stoppedBy(controller.signal, new Work())
      work.ending.resolve()
      if (broken) work.breakDown(new Error('broken'))
      await work.stop()
      await turn()
      const { length } = work.limits
      controller.abort()
      expect(work.limits).toHaveLength(length)
    }
  })
})
