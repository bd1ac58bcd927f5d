import { randomBytes } from 'node:crypto'
import amqp, { type Channel } from 'amqplib'
import { freePort } from './free-port.ts'

const DEFAULT_URL = 'amqp://guest:guest@127.0.0.1:5672'
const ANSWER_WITHIN_MS = 3000
/** RabbitMQ deletes the queue after this long without a consumer, in case the demo cannot delete it. */
const QUEUE_EXPIRES_MS = 60_000

/** The transport of the events from the relay to the second service. */
export interface EventCarrier {
  readonly description: string
  /** For the environment of the relay and of the second service. */
  readonly settings: Readonly<NodeJS.ProcessEnv>
  remove(): Promise<void>
}

/** RabbitMQ if a broker answers, otherwise local HTTP. */
export async function chooseEventCarrier(): Promise<EventCarrier> {
  const url = process.env['AMQP_URL'] || DEFAULT_URL
  if (url === 'none') return overHttp('as AMQP_URL says')
  try {
    return await overRabbitmq(url)
  } catch (error) {
    return overHttp(whyNot(url, error))
  }
}

async function overHttp(why: string): Promise<EventCarrier> {
  const port = String(await freePort())
  return {
    description: `local HTTP (${why})`,
    settings: { AMQP_URL: undefined, PORT: port, SECOND_SERVICE_URL: `http://127.0.0.1:${port}` },
    remove: async () => {},
  }
}

async function overRabbitmq(url: string): Promise<EventCarrier> {
  const name = `txbox-demo-${randomBytes(4).toString('hex')}`
  const dead = `${name}-dead`
  const broker = await onBroker(url, async (channel) => {
    await channel.assertExchange(name, 'topic', { autoDelete: true })
    await channel.assertQueue(dead, { expires: QUEUE_EXPIRES_MS })
    // One consumer at a time; the next consumer starts when all unacknowledged messages of the previous one are back in place.
    await channel.assertQueue(name, {
      expires: QUEUE_EXPIRES_MS,
      deadLetterExchange: '',
      deadLetterRoutingKey: dead,
      arguments: { 'x-single-active-consumer': true },
    })
    await channel.bindQueue(name, name, '#')
  })
  return {
    description: `${broker} at ${withoutPassword(url)}`,
    settings: { AMQP_URL: url, EXCHANGE: name, QUEUE: name },
    // RabbitMQ deletes the exchange with the last queue that is bound to it.
    remove: async () =>
      void (await onBroker(url, async (channel) => {
        for (const queue of [name, dead]) await channel.deleteQueue(queue)
      })),
  }
}

/** @returns which broker it is. */
async function onBroker(url: string, work: (channel: Channel) => Promise<unknown>): Promise<string> {
  const connection = await amqp.connect(url, { timeout: ANSWER_WITHIN_MS })
  // The call in flight gets the same error.
  connection.on('error', () => undefined)
  try {
    const channel = await connection.createChannel()
    channel.on('error', () => undefined)
    await work(channel)
    const { product, version } = connection.connection.serverProperties
    return `${product} ${version}`
  } finally {
    await connection.close().catch(() => undefined)
  }
}

function withoutPassword(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url
}

function whyNot(url: string, error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  const address = withoutPassword(url)
  return code === 'ECONNREFUSED'
    ? `there is no RabbitMQ at ${address}`
    : `RabbitMQ at ${address} cannot be used: ${message}`
}
