// A consumer with a loop of its own, as a program may write it: it passes each delivery to the inbox, and acknowledges it
// after the commit.
import { setTimeout as pause } from 'node:timers/promises'
import { fromRabbitmq } from '@txbox/rabbitmq'
import { isSettled, type InboxMessage, type InboxOutcome } from '@txbox/inbox'
import amqp, { type Channel, type ConsumeMessage } from 'amqplib'
import type { ConsumerParts } from './consumer-parts.ts'
import { WORK_QUEUE, type Change } from './worker-protocol.ts'

const PREFETCH = 24

export async function consumeByHand(parts: ConsumerParts): Promise<void> {
  await new ConsumerByHand(parts).run()
}

class ConsumerByHand {
  readonly #parts: ConsumerParts
  readonly #inProgress = new Set<Promise<void>>()

  constructor(parts: ConsumerParts) {
    this.#parts = parts
  }

  async run(): Promise<void> {
    const { worker, db } = this.#parts
    worker.ready()
    while (!worker.ending.aborted) {
      try {
        await this.#consume()
      } catch (error) {
        worker.failed(error)
      }
      await pause(200)
    }
    await Promise.all(this.#inProgress)
    await db.destroy()
  }

  /** Consumes until the connection ends, or the worker must end. */
  async #consume(): Promise<void> {
    const { worker } = this.#parts
    const connection = await amqp.connect(worker.config.brokerUrl, { timeout: 2000 })
    const ended = new Promise<void>((resolve) => {
      connection.on('error', (error) => worker.failed(error))
      connection.on('close', () => resolve())
    })
    const channel = await connection.createChannel()
    channel.on('error', (error) => worker.failed(error))
    await channel.prefetch(PREFETCH)
    const { consumerTag } = await channel.consume(WORK_QUEUE, (delivery) => {
      if (delivery === null) return
      const handling = this.#handle(channel, delivery).finally(() => this.#inProgress.delete(handling))
      this.#inProgress.add(handling)
    })
    const stopped = new Promise<void>((resolve) => worker.ending.addEventListener('abort', () => resolve()))
    if (worker.ending.aborted) return
    await Promise.race([ended, stopped])
    if (!worker.ending.aborted) return
    await channel.cancel(consumerTag)
    await Promise.all(this.#inProgress)
    await channel.close()
    await connection.close()
  }

  async #handle(channel: Channel, delivery: ConsumeMessage): Promise<void> {
    const { worker, inbox, effect } = this.#parts
    try {
      const message = fromRabbitmq<Change>(delivery)
      const outcome = await (worker.config.workerPlant === 'claim-in-another-transaction'
        ? this.#handleWithLooseClaim(message)
        : inbox.run(message, effect))
      worker.count(outcome.status)
      if (!isSettled(outcome) || worker.draw.chance(worker.mode.redeliver)) {
        return this.#giveBack(channel, delivery)
      }
      channel.ack(delivery)
    } catch (error) {
      worker.failed(error)
      await pause(100)
      this.#giveBack(channel, delivery)
    }
  }

  /** The planted bug: the claim commits before the effect does. */
  async #handleWithLooseClaim(message: InboxMessage<Change>): Promise<InboxOutcome<void>> {
    const { inbox, db, effect } = this.#parts
    const outcome = await inbox.run(message, async () => undefined)
    if (outcome.status === 'processed') await db.transaction().execute((tx) => effect(tx, message))
    return outcome
  }

  /** The broker delivers the messages of a closed channel again by itself. */
  #giveBack(channel: Channel, delivery: ConsumeMessage): void {
    try {
      channel.nack(delivery, false, true)
    } catch (error) {
      this.#parts.worker.failed(error)
    }
  }
}
