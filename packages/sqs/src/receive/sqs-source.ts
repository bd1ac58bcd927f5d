import type { OpenSource, Source, SourceTraits } from '@txbox/core'
import { BrokerUnavailableError } from '@txbox/core'
import { OptionChecker, oneLine } from '@txbox/core/internal'
import { AwsService } from '../connection/aws-service.ts'
import { DeadLetterQueue } from './dead-letter-queue.ts'
import { MessageReader } from './message-reader.ts'
import { OpenSqsQueue } from './open-sqs-queue.ts'
import { ReceivedQueue } from './received-queue.ts'
import { sourceSettings, type SourceSettings, type SqsSourceOptions } from './source-options.ts'

/**
 * Receives deliveries from a queue of Amazon SQS. Messages are converted as by `fromSqs`, except that a message may have no id; envelopes of
 * SNS are opened.
 *
 * A message is deleted when it is accepted, and its visibility timeout is changed when it is retried: SQS keeps the delay, in seconds, of
 * 12 hours at most. In a standard queue, messages have no order. SQS counts each receive there, also one that the consumer does not count,
 * such as when it stops.
 *
 * In a FIFO queue, nothing of a message group comes while a message of the group is out, so that keys keep their order. The count of SQS is
 * not used: it also counts messages that were only received along with an earlier one of their group that is retried. Each process counts
 * the attempts of its own, and a message that crashes its process is not recognized. For the same reason, a redrive policy of such a queue
 * may move messages that no handler has had.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function sqsSource<P = unknown>(options: SqsSourceOptions): Source<P> {
  return new SqsSource<P>(sourceSettings(new OptionChecker('sqsSource', options), options))
}

class SqsSource<P> implements Source<P> {
  readonly name: string
  readonly system = 'aws.sqs'
  readonly destination: string
  readonly traits: SourceTraits
  readonly #settings: SourceSettings

  constructor(settings: SourceSettings) {
    this.#settings = settings
    const { queue, deadLetterQueue, visibilityTimeoutMs } = settings
    this.destination = queue.name.split('/').at(-1) ?? ''
    this.name = `sqs ${oneLine(this.destination)}`
    this.traits = {
      delays: true,
      countsDeliveries: !queue.isFifo,
      keepsRejected: deadLetterQueue !== undefined,
      ordersKeys: queue.isFifo,
      settlesInTransaction: false,
      leaseMs: visibilityTimeoutMs,
    }
  }

  async open({ prefetch }: Parameters<Source<P>['open']>[0]): Promise<OpenSource<P>> {
    const { sqs, queue, deadLetterQueue, functions, visibilityTimeoutMs, waitMs } = this.#settings
    const service = new AwsService('SQS', sqs)
    const closed = (): void => service.close(new BrokerUnavailableError(`The source ${this.name} is closed.`))
    try {
      return new OpenSqsQueue<P>(await ReceivedQueue.open(service, queue), {
        ...{ prefetch, visibilityTimeoutMs, waitMs, closed },
        reader: new MessageReader(functions, queue.isFifo),
        deadLetters:
          deadLetterQueue === undefined
            ? undefined
            : new DeadLetterQueue(service, deadLetterQueue, this.name),
      })
    } catch (error) {
      closed()
      throw error
    }
  }
}
