import * as fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { BatcherClosedError, createBatcher, InvalidOptionError, type Batcher } from '@txbox/consumer'
import { BatcherModel, type ModelSettings, type TestItem } from '../support/subjects/batcher-model.ts'

type Command =
  | { readonly kind: 'add'; readonly channel: number; readonly count: number }
  | {
      readonly kind: 'added'
      readonly channel: number
      readonly count: number
      readonly isAborted: boolean
    }
  | { readonly kind: 'abort' | 'end' | 'fail'; readonly which: number }
  | { readonly kind: 'advance'; readonly ms: number }
  | { readonly kind: 'maxSize' | 'lingerMs'; readonly value: number }
  | { readonly kind: 'flush' | 'close' }

const which = fc.nat(5)
/** The numbers -1 and 4 are never channels; any other is taken modulo the number of channels. */
const channel = fc.oneof(
  { weight: 20, arbitrary: fc.nat(3) },
  { weight: 1, arbitrary: fc.constantFrom(-1, 4) },
)
const count = fc.integer({ min: 1, max: 6 })
const isAborted = fc.nat(7).map((n) => n === 0)
const lingerMs = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 9 }))
const commands: fc.Arbitrary<Command[]> = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({ kind: fc.constant('add'), channel, count }),
    },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('added'), channel, count, isAborted }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('abort'), which }) },
    { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom('end', 'end', 'fail'), which }) },
    {
      weight: 5,
      arbitrary: fc.record({ kind: fc.constant('advance'), ms: fc.integer({ min: 1, max: 12 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant('maxSize'), value: fc.integer({ min: 0, max: 7 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant('lingerMs'), value: fc.oneof(lingerMs, fc.constant(-1)) }),
    },
    { weight: 2, arbitrary: fc.constant({ kind: 'flush' }) },
  ) as fc.Arbitrary<Command>,
  { maxLength: 50, size: 'max' },
)
const settings: fc.Arbitrary<ModelSettings> = fc
  .record({
    maxSize: fc.integer({ min: 1, max: 4 }),
    lingerMs,
    spareCapacity: fc.nat(4),
    concurrency: fc.integer({ min: 1, max: 3 }),
    channels: fc.integer({ min: 1, max: 4 }),
  })
  .map(({ spareCapacity, ...rest }) => Object.assign(rest, { capacity: rest.maxSize + spareCapacity }))

interface Call {
  readonly batch: readonly TestItem[]
  readonly channel: number
  readonly settle: (error?: Error) => void
}

interface Watched {
  state: 'pending' | 'fulfilled' | 'rejected'
  reason?: unknown
}

interface Application extends Watched {
  readonly item: TestItem
  readonly controller: AbortController | undefined
  expectedError?: unknown
}

/** One batcher and its model, which are told the same. */
class Comparison {
  readonly #model: BatcherModel
  readonly #batcher: Batcher<TestItem>
  readonly #calls: Call[] = []
  readonly #applications: Application[] = []
  readonly #flushes: (Watched & { readonly items: readonly TestItem[] })[] = []
  readonly #reported = { flushed: 0, failed: 0 }
  readonly #expected = { flushed: 0, failed: 0 }
  readonly #settings: ModelSettings
  #items = 0

  constructor(settings: ModelSettings) {
    this.#settings = settings
    this.#model = new BatcherModel(settings, () => performance.now())
    this.#batcher = createBatcher<TestItem>({
      ...settings,
      process: (batch, about) => this.#process(batch, about.channel),
      channelOf: (item) => item.channel,
    })
    this.#batcher.on('flushed', () => (this.#reported.flushed += 1))
    this.#batcher.on('error', () => (this.#reported.failed += 1))
  }

  async run(command: Command): Promise<void> {
    switch (command.kind) {
      case 'add':
        for (let n = 0; n < command.count; n += 1) this.#add(command.channel)
        break
      case 'added':
        for (let n = 0; n < command.count; n += 1) this.#added(command.channel, command.isAborted)
        break
      case 'abort':
        this.#abort(command.which)
        break
      case 'end':
      case 'fail':
        this.#end(command.which, command.kind === 'fail')
        break
      case 'advance':
        for (let ms = 0; ms < command.ms; ms += 1) {
          vi.advanceTimersByTime(1)
          await this.#rest()
        }
        break
      case 'maxSize':
        this.#set('maxSize', command.value, command.value >= 1 && command.value <= this.#settings.capacity)
        break
      case 'lingerMs':
        this.#set('lingerMs', command.value, command.value >= 0)
        break
      case 'flush':
        this.#flushes.push(Object.assign(watched(this.#batcher.flush()), { items: this.#model.flush() }))
        break
      case 'close':
        this.#close()
        break
    }
    await this.#rest()
  }

  /** Ends all that the batcher still has to do. */
  async finish(): Promise<void> {
    while (this.#calls.length > 0) await this.run({ kind: 'end', which: 0 })
    expect([...this.#model.processed].length).toBe(this.#model.admitted.size)
    expect(this.#flushes.every(({ state }) => state === 'fulfilled')).toBe(true)
    expect(this.#reported).toEqual(this.#expected)
    expect(vi.getTimerCount()).toBe(0)
  }

  #newItem(channel: number): TestItem {
    const isWrong = channel < 0 || channel > 3
    return { id: (this.#items += 1), channel: isWrong ? channel : channel % this.#settings.channels }
  }

  #add(channel: number): void {
    const item = this.#newItem(channel)
    const expected = this.#model.add(item)
    if (expected === undefined) expect(() => this.#batcher.add(item)).toThrow(InvalidOptionError)
    else expect(this.#batcher.add(item), 'add').toBe(expected)
  }

  #added(channel: number, isAborted: boolean): void {
    const item = this.#newItem(channel)
    const isWrong = channel < 0 || channel > 3
    const controller = isAborted || !isWrong ? new AbortController() : undefined
    if (isAborted) controller?.abort(new Error('aborted before'))
    const added = watched(this.#batcher.added(item, { signal: controller?.signal }))
    const application: Application = Object.assign(added, { item, controller })
    if (isAborted) application.expectedError = controller?.signal.reason
    else if (this.#model.isClosed) application.expectedError = BatcherClosedError
    else if (isWrong) application.expectedError = InvalidOptionError
    else this.#model.apply(item)
    this.#applications.push(application)
  }

  /** Aborts any call of `added`: one that has settled must not notice. */
  #abort(which: number): void {
    const application = this.#applications.at(-1 - which)
    if (application?.controller === undefined || application.controller.signal.aborted) return
    application.controller.abort(new Error('aborted'))
    if (!this.#model.isApplying(application.item)) return
    this.#model.withdraw(application.item)
    application.expectedError = application.controller.signal.reason
  }

  #close(): void {
    for (const application of this.#applications) {
      if (this.#model.isApplying(application.item)) application.expectedError = BatcherClosedError
    }
    const closed = watched(this.#batcher.close())
    this.#model.close()
    this.#flushes.push(Object.assign(closed, { items: this.#model.flush() }))
  }

  #set(name: 'maxSize' | 'lingerMs', value: number, isValid: boolean): void {
    const change = (): void => void (this.#batcher[name] = value)
    if (isValid) {
      change()
      this.#model[name] = value
    } else expect(change).toThrow(InvalidOptionError)
    expect(this.#batcher[name]).toBe(this.#model[name])
  }

  /** Most batches wait for a command that ends them; the others end, fail or add at once. */
  #process(batch: readonly TestItem[], channel: number): Promise<void> | void {
    this.#model.begin(channel, batch)
    const way = batch[0]!.id % 8
    if (way === 5) this.#add(channel)
    if (way === 6 || way === 7) {
      this.#model.end(channel, batch)
      this.#expected[way === 6 ? 'flushed' : 'failed'] += 1
      if (way === 7) throw new Error('thrown')
      return undefined
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const settle = (error?: Error): void => (error === undefined ? resolve() : reject(error))
    this.#calls.push({ batch, channel, settle })
    return promise
  }

  #end(which: number, fails: boolean): void {
    const [call] = this.#calls.splice(which % Math.max(1, this.#calls.length), 1)
    if (call === undefined) return
    this.#model.end(call.channel, call.batch)
    this.#expected[fails ? 'failed' : 'flushed'] += 1
    call.settle(fails ? new Error('rejected') : undefined)
  }

  /** Lets the batcher do what it can do now, and compares. */
  async #rest(): Promise<void> {
    for (let turn = 0; turn < 60; turn += 1) await Promise.resolve()
    this.#model.checkAtRest(this.#batcher.size, vi.getTimerCount())
    for (const flush of this.#flushes) {
      const isDone = flush.items.every((item) => this.#model.processed.has(item))
      expect(flush.state, 'flush, close').toBe(isDone ? 'fulfilled' : 'pending')
    }
    for (const { item, state, reason, expectedError } of this.#applications) {
      if (expectedError === undefined) {
        expect(state, 'added').toBe(this.#model.isApplying(item) ? 'pending' : 'fulfilled')
      } else if (typeof expectedError === 'function') expect(reason).toBeInstanceOf(expectedError)
      else expect(reason).toBe(expectedError)
    }
    expect(this.#model.problems).toEqual([])
  }
}

function watched(promise: Promise<void>): Watched {
  const result: Watched = { state: 'pending' }
  promise.then(
    () => (result.state = 'fulfilled'),
    (error: unknown) => Object.assign(result, { state: 'rejected', reason: error }),
  )
  return result
}

test('B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B11 a batcher does what the model says, whatever is done to it', async () => {
  const property = fc.asyncProperty(settings, commands, commands, async (chosen, before, after) => {
    vi.useFakeTimers()
    try {
      const comparison = new Comparison(chosen)
      for (const command of before) await comparison.run(command)
      await comparison.run({ kind: 'close' })
      for (const command of after.slice(0, 10)) await comparison.run(command)
      await comparison.run({ kind: 'close' })
      await comparison.finish()
    } finally {
      vi.useRealTimers()
    }
  })
  await fc.assert(property, { numRuns: 200 })
})
