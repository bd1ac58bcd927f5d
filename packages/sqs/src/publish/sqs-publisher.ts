import {
  BrokerUnavailableError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
import { OptionChecker, OrderedBatch, RememberedNames, serverOfUrl } from '@txbox/core/internal'
import { AwsService } from '../connection/aws-service.ts'
import { checkLogin } from '../connection/check-login.ts'
import { installedService } from '../connection/load-sdk.ts'
import { QueueUrls } from '../connection/queue-urls.ts'
import { PublishCall, type CallSettings } from './publish-call.ts'
import { Slots } from './slots.ts'
import { publisherSettings, type PublisherSettings, type SqsPublisherOptions } from './sqs-options.ts'

/**
 * Publishes to queues of Amazon SQS and topics of Amazon SNS. The topic of a message is the name or URL of a queue, or the ARN of an SNS
 * topic. A message is accepted when the service has answered that it has taken this message.
 *
 * The body is the payload as text, where SQS takes that text unchanged; otherwise the payload in base64, with the attribute
 * `txbox-encoding`. Fields are the attributes `txbox-id`, `txbox-type`, `txbox-key`, `txbox-correlation-id`, `txbox-time` (RFC 3339
 * with milliseconds), `content-type` and `content-encoding`; all headers are the attribute `headers`, as JSON, except those that the
 * option `attributes` names. A field that cannot be an attribute of its own, because it is empty or because there are ten attributes
 * already, is in the attribute `txbox-fields`, as JSON.
 *
 * - FIFO (names that end with `.fifo`): the key, or the id of a message without a key, is the message group; the header
 *   `deduplication-id`, or else the id, is the deduplication id, which SQS recognizes for 5 minutes. Texts that SQS does not take as such
 *   names are replaced by their SHA-256. Messages of one key are sent one after the other, so that their order holds also when one of
 *   them is refused.
 * - In a standard queue, messages have no order. The key is the message group there, too, which makes the queue fair to others.
 * - A message that is too large, or whose topic is no name of a queue or topic, is rejected permanently, before it is sent. So is a message
 *   that the service refuses for itself; others of its request are not disturbed.
 * - A queue or topic that does not exist, or to which the user may not send, rejects the message, which can be tried again. If this
 *   publisher has published there before, to one of the last 10,000, a missing queue or topic counts no attempt. Neither does a
 *   destination that throttles, or whose KMS key cannot be used.
 * - All other failures throw: no connection, no credentials or expired ones, no answer, an answer that is none of SQS, or `signal`
 *   aborted. It is then unknown which messages were published.
 *
 * The packages `@aws-sdk/client-sqs` and `@aws-sdk/client-sns` are loaded when a message needs them. Calls may overlap.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function sqsPublisher(options: SqsPublisherOptions = {}): Publisher {
  return new SqsPublisher(publisherSettings(new OptionChecker('sqsPublisher', options), options))
}

class SqsPublisher implements Publisher {
  readonly ordering = 'per-key'
  readonly system = 'aws.sqs'
  readonly server: Publisher['server']
  readonly #settings: CallSettings
  /** The services to which `check` logs in; none: that whose client is installed. */
  readonly #checked: readonly AwsService[]
  #isClosed = false

  constructor({ sqs, sns, checked, concurrency, ...settings }: PublisherSettings) {
    // A client of the user's may have another endpoint.
    const isOwn = sqs.client === undefined && sns.client === undefined
    this.server = isOwn && sqs.endpoint !== undefined ? serverOfUrl(sqs.endpoint) : undefined
    const services = { sqs: new AwsService('SQS', sqs), sns: new AwsService('SNS', sns) }
    this.#settings = {
      ...settings,
      services: { ...services, urls: new QueueUrls(services.sqs) },
      slots: new Slots(concurrency),
      seen: new RememberedNames(),
    }
    const given = [
      ...(sqs.client === undefined ? [] : [services.sqs]),
      ...(sns.client === undefined ? [] : [services.sns]),
    ]
    this.#checked = checked === undefined ? given : [services[checked]]
  }

  async publish(
    messages: readonly OutboxMessage[],
    { signal, answered }: PublishOptions,
  ): Promise<readonly PublishResult[]> {
    signal.throwIfAborted()
    if (this.#isClosed) throw closedError()
    if (messages.length === 0) return []
    const batch = new OrderedBatch(messages)
    await new PublishCall(batch, this.#settings, answered).run(signal)
    return batch.results as PublishResult[]
  }

  async check({ signal }: { signal: AbortSignal }): Promise<void> {
    signal.throwIfAborted()
    const checked = this.#checked.length > 0 ? this.#checked : [await this.#installed()]
    for (const service of checked) await checkLogin(service, signal)
  }

  async #installed(): Promise<AwsService> {
    const { sqs, sns } = this.#settings.services
    return (await installedService()) === 'SNS' ? sns : sqs
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const { sqs, sns } = this.#settings.services
    for (const service of [sqs, sns]) service.close(closedError())
  }
}

function closedError(): BrokerUnavailableError {
  return new BrokerUnavailableError(
    'The publisher for SQS is closed. It is unknown whether messages in flight were published. Create a new publisher.',
  )
}
