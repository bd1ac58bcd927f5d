import type { OpenSource, Source, SourceTraits } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import { CountOffsets } from './count-offsets.ts'
import { natsSourceOptions, type NatsSourceOptions, type SourceSettings } from './nats-source-options.ts'
import { OpenConsumer } from './open-consumer.ts'

/**
 * Receives deliveries from a durable pull consumer of JetStream. Messages are converted as by `fromNats`, except that a message may have no
 * id; the ordering key is the header `txbox-key`, as `natsPublisher` writes it, or else the `partitionkey` of a CloudEvent in binary mode.
 *
 * A delivery is held for `ack_wait`, and the consumer extends it while it works. Deliveries outlive a broken connection: the source connects
 * again, and settles them then. JetStream keeps no rejected messages, so the consumer needs `deadLetters`. It counts each delivery, also one
 * that was given back at a stop, or whose process has crashed.
 *
 * Retries that count wait in JetStream if the consumer has no room for them; meanwhile they count as unsettled for `max_ack_pending`. Where
 * several processes receive from one consumer, JetStream does not keep the order of a key among them.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function natsSource<P = unknown>(options: NatsSourceOptions): Source<P> {
  return new NatsSource<P>(natsSourceOptions(options))
}

class NatsSource<P> implements Source<P> {
  readonly name: string
  readonly system = 'nats'
  readonly destination: string
  readonly traits: SourceTraits
  readonly #settings: SourceSettings
  readonly #offsets = new CountOffsets()
  readonly #warned = new Set<string>()

  constructor(settings: SourceSettings) {
    this.#settings = settings
    this.destination = settings.stream
    this.name = `nats ${oneLine(settings.stream)}/${oneLine(settings.consumer)}`
    this.traits = {
      delays: false,
      countsDeliveries: true,
      keepsRejected: false,
      ordersKeys: false,
      settlesInTransaction: false,
      leaseMs: settings.ackWaitMs,
    }
  }

  async open(how: Parameters<Source<P>['open']>[0]): Promise<OpenSource<P>> {
    const warned = (text: string): void => {
      if (this.#warned.has(text)) return
      this.#warned.add(text)
      how.warned?.(text)
    }
    const opened = new OpenConsumer<P>(this.#settings, { ...how, warned }, this.#offsets)
    try {
      await opened.connect()
      return opened
    } catch (error) {
      await opened.close()
      throw error
    }
  }
}
