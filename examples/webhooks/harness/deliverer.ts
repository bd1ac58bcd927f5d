import { setTimeout as pause } from 'node:timers/promises'
import type { DeliveryLog } from './delivery-log.ts'
import type { Webhook } from './webhooks.ts'
import { signatureOf } from '../services/webhook-signature.ts'

const CONCURRENCY = 16
const ANSWER_WITHIN_MS = 10_000
const GIVE_UP_AFTER_MS = 60_000

/**
 * Plays the part of GitHub, but repeats more: delivers webhooks, 16 at a time, and sends each again until the receiver
 * has acknowledged it. The receiver may be down, or may die while it answers.
 */
export class Deliverer {
  readonly #settings: { readonly url: string; readonly secret: string; readonly log: DeliveryLog }
  readonly #signal: AbortSignal
  /** The number of scheduled deliveries that are acknowledged. */
  acknowledged = 0

  constructor(settings: { url: string; secret: string; log: DeliveryLog }, signal: AbortSignal) {
    this.#settings = settings
    this.#signal = signal
  }

  /** @throws {Error} if the receiver does not acknowledge a webhook for a minute. */
  async deliver(schedule: readonly Webhook[]): Promise<void> {
    let next = 0
    const worker = async (): Promise<void> => {
      for (;;) {
        const webhook = schedule[next++]
        if (webhook === undefined) return
        await this.#untilAcknowledged(webhook)
        this.acknowledged++
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  }

  async #untilAcknowledged(webhook: Webhook): Promise<void> {
    const giveUpAt = performance.now() + GIVE_UP_AFTER_MS
    for (;;) {
      this.#signal.throwIfAborted()
      const answer = await this.#send(webhook)
      if (answer !== 'nobody there') this.#settings.log.add(webhook.deliveryId, answer)
      if (answer === 'processed' || answer === 'duplicate') return
      if (performance.now() > giveUpAt) {
        throw new Error(
          `The receiver did not acknowledge the webhook ${webhook.deliveryId} for a minute (${answer}).`,
        )
      }
      await pause(50 + Math.random() * 100)
    }
  }

  async #send(webhook: Webhook): Promise<string> {
    const { url, secret } = this.#settings
    const body = webhook.body()
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'user-agent': 'GitHub-Hookshot/demo',
          'x-github-delivery': webhook.deliveryId,
          'x-github-event': webhook.event,
          'x-hub-signature-256': signatureOf(secret, body),
        },
        body,
        signal: AbortSignal.any([this.#signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
      })
      return await response.text()
    } catch (error) {
      const { code } = (error as { cause?: { code?: string } }).cause ?? {}
      return code === 'ECONNREFUSED' ? 'nobody there' : 'no answer'
    }
  }
}
