import type { Delivery } from '@txbox/core'
import type { Commits } from './commits.ts'
import { KafkaDelivery, type HandedOut } from './kafka-delivery.ts'
import type { OwnedPartition } from './owned-partition.ts'
import type { StoredRecord } from './stored-record.ts'

interface HandedOutHow {
  /** Called when further records can be handed out. */
  readonly hasRoom: () => void
  /** Called with a record that was accepted together with a later one, and that this process will not handle. */
  readonly abandoned: (record: StoredRecord) => void
}

/** The records that the consumer has received and not settled, at most as many as its prefetch. */
export class HandedOutRecords<P> {
  readonly #commits: Commits
  readonly #prefetch: number
  readonly #how: HandedOutHow
  readonly #deliveryHow: ConstructorParameters<typeof KafkaDelivery>[3] = {
    accepted: (each, how) => this.#accepted(each, how),
    returned: (each, isStopping) => this.#giveBack(each, isStopping),
  }
  readonly #inHand = new Set<HandedOut>()
  /** The records that were handed out before. */
  readonly #returned = new WeakSet<StoredRecord>()
  /** The place of the partition whose turn is next. */
  #turn = 0

  constructor(commits: Commits, prefetch: number, how: HandedOutHow) {
    this.#commits = commits
    this.#prefetch = prefetch
    this.#how = how
  }

  /** Takes records out of the partitions in turn, each in its order. */
  take(partitions: readonly OwnedPartition[], limit: number): readonly Delivery<P>[] {
    const deliveries: Delivery<P>[] = []
    let empty = 0
    while (empty < partitions.length && deliveries.length < limit && this.#inHand.size < this.#prefetch) {
      this.#turn = (this.#turn + 1) % partitions.length
      const partition = partitions[this.#turn]!
      const record = partition.take()
      if (record === undefined) empty += 1
      else {
        empty = 0
        deliveries.push(this.#handOut(partition, record))
      }
    }
    return deliveries
  }

  /**
   * Loses the records of these partitions: from now on, settling them changes nothing. A record that was accepted together with a later
   * one is not lost: no other member gets it.
   */
  loseOf(isLost: (partition: OwnedPartition) => boolean, reason: unknown): void {
    for (const delivery of this.#inHand) {
      if (!isLost(delivery.partition) || delivery.partition.isFinal(delivery.record.offset)) continue
      this.#inHand.delete(delivery)
      delivery.lose(reason)
    }
  }

  #handOut(partition: OwnedPartition, record: StoredRecord): KafkaDelivery<P> {
    const delivery = new KafkaDelivery<P>(
      partition,
      record,
      this.#returned.has(record) ? 2 : 1,
      this.#deliveryHow,
    )
    this.#inHand.add(delivery)
    return delivery
  }

  async #accepted(
    delivery: HandedOut,
    { recorded = false, beforeHandling = false }: NonNullable<Parameters<Delivery['accept']>[0]>,
  ): Promise<void> {
    const { partition, record } = delivery
    if (beforeHandling) partition.accept(record.offset)
    else partition.settled(record.offset)
    this.#commits.request()
    // Behind a record that is not settled, nothing can be committed, which may last as long as that record is retried.
    const isNext = (partition.committable ?? -1n) > record.offset
    if (beforeHandling || (!recorded && isNext)) await this.#commits.until(partition, record.offset)
    this.#leave(delivery)
  }

  #giveBack(delivery: HandedOut, isStopping: boolean): void {
    const { partition, record } = delivery
    if (isStopping || partition.isLost) {
      // Only this process could have handled the record.
      if (partition.isAccepted(record.offset)) this.#how.abandoned(record)
    } else {
      this.#returned.add(record)
      partition.giveBack(record)
    }
    if (!isStopping) this.#leave(delivery)
  }

  #leave(delivery: HandedOut): void {
    this.#inHand.delete(delivery)
    this.#how.hasRoom()
  }
}
