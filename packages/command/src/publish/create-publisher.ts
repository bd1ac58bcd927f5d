import type { Publisher } from '@txbox/relay'
import { UsageError } from '../failure.ts'
import type { Installation } from '../installation.ts'
import { loadDriver } from '../load-driver.ts'
import { brokerCall, rabbitmqOptions } from './broker-options.ts'
import { loadPackage } from './broker-packages.ts'
import { modulePublisher } from './module-publisher.ts'
import { pgBossPublisher } from './pg-boss-publisher.ts'
import { publisherUrl, type PublisherUrl } from './publisher-url.ts'
import { stdoutPublisher } from './stdout-publisher.ts'
import { readTopicMap, withTopicMap } from './topic-map.ts'
import { urlOptions } from './url-options.ts'
import { webhookPublisher } from './webhook-publisher.ts'

const EXPECTED =
  'amqp://, amqps://, kafka://, kafka+ssl://, nats://, tls://, redis://, rediss://, sqs:, sns:, https://, http://, webhook:, pg-boss:, ' +
  'module:./file.mjs or stdout:'

export interface PublisherOptions {
  readonly installation: Installation
  /** The URL, which may contain a password. */
  readonly publisher: string
  readonly database?: string | undefined
  readonly exchange?: string | undefined
  readonly webhookSecretFile?: string | undefined
  readonly allowHttp?: boolean | undefined
  readonly topicMap?: string | undefined
  readonly cloudevents?: string | undefined
}

/** Creates the publisher of `--publisher`. Never shows the URL, which may contain a password. */
export async function createPublisher(options: PublisherOptions): Promise<Publisher> {
  const url = publisherUrl(options.publisher, process.env, EXPECTED)
  refuseForeignOptions(url, options)
  const map = options.topicMap === undefined ? undefined : await readTopicMap(options.topicMap)
  const publisher = await publisherOf(url, options)
  const mapped = map === undefined ? publisher : withTopicMap(publisher, map)
  // If a message has no type, its topic becomes the event's type: the application's topic, before it is mapped.
  return options.cloudevents === undefined ? mapped : await withEvents(mapped, options.cloudevents)
}

async function publisherOf(url: PublisherUrl, options: PublisherOptions): Promise<Publisher> {
  switch (url.scheme) {
    case 'amqp':
    case 'amqps': {
      const settings = rabbitmqOptions(url, options.exchange)
      const { rabbitmqPublisher } = await loadDriver(options.installation, '@txbox/rabbitmq')
      return rabbitmqPublisher(settings)
    }
    case 'http':
    case 'https':
    case 'webhook':
      return await webhookPublisher(url, options)
    case 'pg-boss':
      return await pgBossPublisher(url, options.database)
    case 'module':
      urlOptions(url, {})
      return await modulePublisher(url.path)
    case 'stdout':
      urlOptions(url, {})
      return stdoutPublisher()
    default:
  }
  const call = brokerCall(url)
  if (call === undefined) {
    throw new UsageError(`--publisher ${url.scheme}:… is not supported; expected ${EXPECTED}`)
  }
  const { [call.make]: make } = await loadPackage(call.package)
  return (make as (options: object) => Publisher)(call.options)
}

function refuseForeignOptions({ scheme }: PublisherUrl, options: PublisherOptions): void {
  const isWebhook = ['http', 'https', 'webhook'].includes(scheme)
  if (options.webhookSecretFile !== undefined && !isWebhook) {
    throw new UsageError('--webhook-secret-file is for webhooks: https://… or webhook:')
  }
  if (options.allowHttp === true && scheme !== 'http') throw new UsageError('--allow-http is for http://…')
}

/** @param given the source, and behind its last comma the mode, if it is one. */
async function withEvents(publisher: Publisher, given: string): Promise<Publisher> {
  const [, source, mode] = /^(.*),(binary|structured)$/s.exec(given) ?? [undefined, given]
  const { cloudEvents } = await loadPackage('@txbox/cloudevents')
  return (cloudEvents as (options: object) => Publisher)({ publisher, source, mode })
}
