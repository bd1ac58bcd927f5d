import { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted, within } from '@txbox/core/internal'
import amqp, { type ChannelModel } from 'amqplib'
import type { BrokerAddress } from './broker-address.ts'
import { reasonOf } from './reason-of.ts'

export interface ConnectSettings {
  readonly address: BrokerAddress
  readonly tls: object
  readonly connectTimeoutMs: number
}

/**
 * Connects, and prepares the connection. Aborting `lifetime` ends the attempt, and later the connection, at once.
 *
 * @param socket options of the socket, and the name of the connection.
 * @throws {BrokerUnavailableError} when the connection cannot be opened or prepared within `connectTimeoutMs`.
 */
export async function connectBroker<T>(
  { address, tls, connectTimeoutMs }: ConnectSettings,
  lifetime: AbortController,
  socket: {
    readonly clientProperties: { readonly connection_name: string }
    readonly [option: string]: unknown
  },
  prepare: (model: ChannelModel) => Promise<T>,
): Promise<T> {
  const connect = async (): Promise<T> => {
    const options = { ...tls, noDelay: true, signal: lifetime.signal, ...socket }
    return prepare(await amqp.connect(address.url, options))
  }
  try {
    return await within(unlessAborted(connect(), lifetime.signal), connectTimeoutMs, unanswered)
  } catch (error) {
    lifetime.abort(error)
    if (error instanceof BrokerUnavailableError) throw error
    throw new BrokerUnavailableError(
      `Cannot connect to RabbitMQ at ${address.name}: ${reasonOf(error)}. Check that it runs there, and the ` +
        "user, password and vhost of the option 'url'.",
      { cause: error },
    )
  }
}

function unanswered(ms: number): never {
  throw new Error(`it did not answer within ${ms} ms`)
}
