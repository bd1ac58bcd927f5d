import { unlessAborted } from '@txbox/core/internal'
import type { AwsService } from './aws-service.ts'

/** Above this number, the URLs are forgotten. */
const MOST_URLS = 10_000

/** The URLs of queues that are known by their names. SQS is asked once for each. */
export class QueueUrls {
  readonly #sqs: AwsService
  readonly #urls = new Map<string, Promise<string>>()

  constructor(sqs: AwsService) {
    this.#sqs = sqs
  }

  /** @throws as `AwsService.call`. */
  async of(name: string, signal: AbortSignal | undefined): Promise<string> {
    const known = this.#urls.get(name)
    if (known !== undefined) return unlessAborted(known, signal)
    if (this.#urls.size >= MOST_URLS) this.#urls.clear()
    // Other calls wait for the same answer, so the signal of this call must not end the request.
    const asked = this.#ask(name)
    this.#urls.set(name, asked)
    asked.catch(() => this.#urls.delete(name))
    return unlessAborted(asked, signal)
  }

  async #ask(QueueName: string): Promise<string> {
    const { QueueUrl } = await this.#sqs.call<{ QueueUrl?: string }>('GetQueueUrl', { QueueName }, undefined)
    if (QueueUrl === undefined || QueueUrl === '') throw new Error('it answered without the URL of the queue')
    return QueueUrl
  }
}
