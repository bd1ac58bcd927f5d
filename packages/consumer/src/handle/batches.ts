import type { Batcher } from '../batcher/batcher.ts'
import { createBatcher } from '../batcher/create-batcher.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { Permits } from '../receive/permits.ts'
import type { Handling, Turns, Verdict } from './handling.ts'

/** A call of the handler for each batch of deliveries. */
export class Batches implements Turns {
  readonly #permits: Permits
  readonly #handling: Handling
  readonly #batcher: Batcher<HeldDelivery>
  /** The verdicts of the batches that are being handled. */
  readonly #verdicts = new Map<HeldDelivery, PromiseWithResolvers<Verdict>>()

  constructor(
    permits: Permits,
    handling: Handling,
    { concurrency, prefetch }: ConsumerSettings,
    batch: NonNullable<ConsumerSettings['batch']>,
  ) {
    this.#permits = permits
    this.#handling = handling
    this.#batcher = createBatcher<HeldDelivery>({
      process: (batch) => this.#begin(batch),
      ...batch,
      concurrency,
      // Room for all held deliveries, and for deliveries that were settled or lost while they waited for their batch.
      capacity: Math.max(batch.maxSize, prefetch) * 2,
      logger: false,
    })
  }

  enter(held: HeldDelivery): boolean {
    // The promise cannot reject, because the batcher is never closed.
    void this.#batcher.added(held)
    return false
  }

  /** Deliveries that wait for more deliveries have left: the timer of their batch would keep the process alive. */
  stop(): void {
    this.#batcher.lingerMs = 0
  }

  async handle(held: HeldDelivery): Promise<Verdict> {
    const verdict = await this.#verdicts.get(held)!.promise
    this.#verdicts.delete(held)
    return verdict
  }

  async #begin(batch: readonly HeldDelivery[]): Promise<void> {
    const permit = Promise.withResolvers<void>()
    const proceed = (): boolean => (permit.resolve(), true)
    if (!this.#permits.take({ proceed })) await permit.promise
    // Deliveries may have been lost, or returned to the source, while they waited for their batch.
    const present = batch.filter((held) => held.proceed())
    for (const held of present) this.#verdicts.set(held, Promise.withResolvers())
    // With manual acknowledgement the batch ends when the handler has returned.
    await new Promise<void>((returned) => {
      const answer = (held: HeldDelivery, verdict: Verdict): void =>
        this.#verdicts.get(held)?.resolve(verdict)
      if (present.length === 0) returned()
      else void this.#handling.several(present, answer, returned)
    })
    this.#permits.release()
  }
}
