import assert from 'node:assert/strict'
import type { Delivery, OpenSource } from '@txbox/core'
import { pause, within } from '@txbox/core/internal'
import type { SourceContractOptions, SourceUnderTest } from './source-under-test.ts'

const LIMIT_MS = 25_000
const POLL_MS = 10
const GRACE_MS = 1000
/** A delivery that must not come would come within this time. */
const QUIET_MS = 50

type OpenHow = Partial<Parameters<SourceUnderTest['source']['open']>[0]>

/** One case with its subject: what the case has opened, and the waits that are limited. */
export class SourceTrial {
  readonly subject: SourceUnderTest
  readonly options: SourceContractOptions
  readonly #opened: OpenSource[] = []

  constructor(subject: SourceUnderTest, options: SourceContractOptions) {
    this.subject = subject
    this.options = options
  }

  get traits(): SourceContractOptions['traits'] {
    return this.options.traits
  }

  get isInOrder(): boolean {
    return this.options.inOrder ?? !this.traits.ordersKeys
  }

  get settlesEach(): boolean {
    return this.options.settles !== 'prefix'
  }

  async open(how: OpenHow = {}): Promise<OpenSource> {
    const opened = await this.subject.source.open({ prefetch: 10, failed: () => undefined, ...how })
    this.#opened.push(opened)
    return opened
  }

  /** Closes what the case has opened, also what it has closed: closing twice is closing once. */
  get closings(): (() => Promise<void>)[] {
    return this.#opened.map((opened) => () => opened.close())
  }

  /** Receives exactly this many deliveries. */
  async receive(opened: OpenSource, count: number): Promise<Delivery[]> {
    const deliveries: Delivery[] = []
    await this.#limited(
      async (signal) => {
        while (deliveries.length < count && !signal.aborted) {
          const limit = count - deliveries.length
          const received = await opened.receive(limit, { signal })
          assert.ok(
            received.length <= limit,
            `${received.length} deliveries came, at most ${limit} were wanted`,
          )
          deliveries.push(...received)
        }
      },
      () => `${deliveries.length} of ${count} deliveries came`,
    )
    return deliveries
  }

  /** Receives at least one delivery. */
  async receiveSome(opened: OpenSource, limit: number): Promise<readonly Delivery[]> {
    let deliveries: readonly Delivery[] = []
    await this.#limited(
      async (signal) => void (deliveries = await opened.receive(limit, { signal })),
      () => 'no delivery came',
    )
    return deliveries
  }

  async receiveOne(opened: OpenSource): Promise<Delivery> {
    const [delivery] = await this.receive(opened, 1)
    return delivery!
  }

  /** Asserts that nothing is delivered for a short time. */
  async receivesNothing(opened: OpenSource): Promise<void> {
    const received = await this.receiveFor(opened, QUIET_MS)
    assert.deepEqual(idsOf(received), [], 'deliveries came that must not come now')
  }

  /** Receives deliveries, or nothing after this time. */
  async receiveFor(opened: OpenSource, forMs: number): Promise<readonly Delivery[]> {
    const stop = new AbortController()
    const timer = setTimeout(() => stop.abort(), forMs)
    try {
      return await opened.receive(10, { signal: stop.signal })
    } finally {
      clearTimeout(timer)
    }
  }

  /** Closes the source, and asserts how many messages are left in the queue. */
  async closesWith(opened: OpenSource, left: number): Promise<void> {
    await opened.close()
    let seen = -1
    await this.until(
      async () => (seen = await this.subject.left()) === left,
      () => `${seen} messages are left, not ${left}`,
    )
  }

  /** Asserts which messages were rejected. A source that keeps none has none. */
  async keeps(rejected: readonly string[]): Promise<void> {
    const { subject } = this
    if (!this.traits.keepsRejected) return
    assert.ok(subject.rejected !== undefined, "a source that keeps rejected messages needs 'rejected'")
    let seen: readonly string[] = []
    await this.until(
      async () => (seen = await subject.rejected!()).length >= rejected.length,
      () => `${seen.length} rejected messages are kept, not ${rejected.length}`,
    )
    assert.deepEqual(seen.toSorted(), [...rejected].toSorted(), 'the rejected messages')
  }

  /** Ends the message for good: by a rejection, where the source keeps what is rejected, and otherwise by accepting it. */
  async ends(delivery: Delivery): Promise<'rejected' | 'accepted'> {
    if (this.traits.keepsRejected) {
      await delivery.reject({ error: new Error('never') })
      return 'rejected'
    }
    await delivery.accept()
    return 'accepted'
  }

  /** Polls the condition, whose signal is aborted when the time is over. */
  async until(
    condition: (signal: AbortSignal) => Promise<boolean> | boolean,
    describe: () => string,
  ): Promise<void> {
    await this.#limited(async (signal) => {
      while (!(await condition(signal)) && !signal.aborted) await pause(POLL_MS, signal)
    }, describe)
  }

  /** Waits for work that has no signal. */
  async limited<T>(work: Promise<T>, describe: () => string): Promise<T> {
    return await within(work, this.#limitMs, () =>
      assert.fail(`not within ${this.#limitMs} ms: ${describe()}`),
    )
  }

  get #limitMs(): number {
    return this.options.limitMs ?? LIMIT_MS
  }

  async #limited(work: (signal: AbortSignal) => Promise<void>, describe: () => string): Promise<void> {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), this.#limitMs)
    try {
      // A source that ignores the signal must not hold up the case.
      await within(work(late.signal), this.#limitMs + GRACE_MS, () => undefined)
    } finally {
      clearTimeout(timer)
    }
    assert.ok(!late.signal.aborted, `not within ${this.#limitMs} ms: ${describe()}`)
  }
}

export function idsOf(deliveries: readonly Delivery[]): string[] {
  return deliveries.map(({ message }) => message.id)
}

/** Asserts that exactly these messages came, in any order. */
export function sameDeliveries(deliveries: readonly Delivery[], ids: readonly string[]): void {
  assert.deepEqual(idsOf(deliveries).toSorted(), [...ids].toSorted())
}

/** Ids for this many messages. */
export function ids(count: number, prefix = 'm'): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${n}`)
}

/** All ways of settling a delivery that is settled or lost: each resolves, and changes nothing. */
export async function settlesLate(delivery: Delivery): Promise<void> {
  await delivery.retry({ delayMs: 0, error: undefined, counted: true })
  await delivery.reject({ error: new Error('late') })
  await delivery.accept()
  await delivery.accept({ recorded: true })
}
