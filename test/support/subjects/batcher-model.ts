/** An item of the tests. A batcher uses only its channel. */
export interface TestItem {
  readonly id: number
  readonly channel: number
}

/** The options of a batcher of the model. */
export interface ModelSettings {
  readonly maxSize: number
  readonly lingerMs: number
  readonly capacity: number
  readonly concurrency: number
  readonly channels: number
}

interface ModelChannel {
  waiting: { readonly item: TestItem; readonly addedAt: number }[]
  applicants: TestItem[]
  batches: number
}

/**
 * The required behavior of a batcher, as plain lists without timers: the test reports each call that it makes and each
 * batch that it sees to the model, and the model reports what was wrong.
 */
export class BatcherModel {
  readonly #settings: ModelSettings
  readonly #now: () => number
  readonly #channels: ModelChannel[]
  readonly #flushed = new Set<TestItem>()
  readonly problems: string[] = []
  readonly admitted = new Set<TestItem>()
  readonly processed = new Set<TestItem>()
  maxSize: number
  lingerMs: number
  isClosed = false

  constructor(settings: ModelSettings, now: () => number) {
    this.#settings = settings
    this.#now = now
    this.maxSize = settings.maxSize
    this.lingerMs = settings.lingerMs
    this.#channels = Array.from({ length: settings.channels }, () => ({
      waiting: [],
      applicants: [],
      batches: 0,
    }))
  }

  get size(): number {
    return this.#channels.reduce((sum, { waiting }) => sum + waiting.length, 0)
  }

  get #batches(): number {
    return this.#channels.reduce((sum, { batches }) => sum + batches, 0)
  }

  /** @returns what `add` must return; `undefined` if it must throw. */
  add(item: TestItem): boolean | undefined {
    if (this.isClosed) return false
    const channel = this.#channels[item.channel]
    if (channel === undefined) return undefined
    if (channel.waiting.length >= this.#settings.capacity) return false
    this.#admit(channel, item)
    return true
  }

  /** A call of `added` that is neither refused at once nor aborted. */
  apply(item: TestItem): void {
    if (this.add(item) === false) this.#channels[item.channel]!.applicants.push(item)
  }

  withdraw(item: TestItem): void {
    const channel = this.#channels[item.channel]!
    channel.applicants = channel.applicants.filter((other) => other !== item)
  }

  isApplying(item: TestItem): boolean {
    return this.#channels[item.channel]?.applicants.includes(item) === true
  }

  /** @returns the items that must have been processed before the flush may resolve. */
  flush(): readonly TestItem[] {
    for (const { waiting } of this.#channels) for (const { item } of waiting) this.#flushed.add(item)
    return [...this.admitted].filter((item) => !this.processed.has(item))
  }

  close(): void {
    this.isClosed = true
    for (const channel of this.#channels) channel.applicants = []
  }

  /** `process` has been called. */
  begin(number: number, batch: readonly TestItem[]): void {
    const channel = this.#channels[number]!
    if (this.#batches >= this.#settings.concurrency) this.#wrong('B3 too many batches at a time')
    if (!this.#mayBegin(channel)) this.#wrong(`B5 B10 the channel ${number} is not due`)
    const expected = channel.waiting.splice(0, this.maxSize).map(({ item }) => item)
    if (String(batch.map(({ id }) => id)) !== String(expected.map(({ id }) => id))) {
      this.#wrong(
        `B1 B9 expected ${expected.map(({ id }) => id).join()}, not ${batch.map(({ id }) => id).join()}`,
      )
    }
    channel.batches += 1
    while (channel.applicants.length > 0 && channel.waiting.length < this.#settings.capacity) {
      this.#admit(channel, channel.applicants.shift()!)
    }
  }

  /** The promise of `process` has settled. */
  end(number: number, batch: readonly TestItem[]): void {
    this.#channels[number]!.batches -= 1
    for (const item of batch) {
      if (this.processed.has(item)) this.#wrong(`B1 item ${item.id} was processed twice`)
      this.processed.add(item)
    }
  }

  /** Checks what must hold whenever the batcher has done all it can do now. @param timers the number of running timers. */
  checkAtRest(size: number, timers: number): void {
    if (size !== this.size) this.#wrong(`size is ${size} and not ${this.size}`)
    const late = this.#channels.findIndex((channel) => this.#mayBegin(channel))
    if (late >= 0 && this.#batches < this.#settings.concurrency) this.#wrong(`B2 B5 channel ${late} is late`)
    const lingering = this.#channels.filter(
      (channel) => this.#isFree(channel) && channel.waiting.length > 0 && !this.#mayBegin(channel),
    )
    if (timers !== lingering.length) this.#wrong(`B6 ${timers} timers instead of ${lingering.length}`)
  }

  #admit(channel: ModelChannel, item: TestItem): void {
    channel.waiting.push({ item, addedAt: this.#now() })
    this.admitted.add(item)
  }

  #isFree({ batches }: ModelChannel): boolean {
    return batches < (this.#settings.channels === 1 ? this.#settings.concurrency : 1)
  }

  #mayBegin(channel: ModelChannel): boolean {
    const [oldest] = channel.waiting
    if (oldest === undefined || !this.#isFree(channel)) return false
    if (channel.waiting.length >= this.maxSize || this.#now() - oldest.addedAt >= this.lingerMs) return true
    return this.isClosed || this.#flushed.has(oldest.item)
  }

  #wrong(problem: string): void {
    this.problems.push(problem)
  }
}
