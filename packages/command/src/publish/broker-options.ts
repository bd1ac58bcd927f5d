import type { OutboxMessage } from '@txbox/relay'
import { UsageError } from '../failure.ts'
import type { BrokerPackage } from './broker-packages.ts'
import type { PublisherUrl } from './publisher-url.ts'
import { TIMES_AND_SIZE, urlOptions, type ValueKind } from './url-options.ts'

/** A package's function that makes a publisher, and its options. */
export interface BrokerCall {
  readonly package: BrokerPackage
  readonly make: string
  readonly options: Readonly<Record<string, unknown>>
}

const KAFKA_PORT = 9092
const ASKS_FOR_TLS = /^[\w-]*(ssl|tls|certfile|keyfile|verify)[\w-]*$/i
const MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512']

/** @returns nothing for a scheme that is no broker of this table. */
export function brokerCall(url: PublisherUrl): BrokerCall | undefined {
  switch (url.scheme) {
    case 'kafka':
    case 'kafka+ssl':
      return kafkaCall(url)
    case 'nats':
    case 'tls':
      return natsCall(url)
    case 'redis':
    case 'rediss':
      return redisCall(url)
    case 'sqs':
    case 'sns':
      return sqsCall(url)
    default:
      return undefined
  }
}

function kafkaCall(url: PublisherUrl): BrokerCall {
  const { user, password } = url
  const { sasl, ...options } = urlOptions(url, {
    ...{ sasl: 'text', clientId: 'text', compression: 'text', idempotent: 'flag' },
    ...TIMES_AND_SIZE,
  })
  refusePath(url)
  const isTls = url.scheme === 'kafka+ssl'
  const brokers = hostsOf(url).map((host) => (/:\d+$/.test(host) ? host : `${host}:${KAFKA_PORT}`))
  const login = { user, password, isTls, sasl: sasl as string | undefined }
  return {
    package: '@txbox/kafka',
    make: 'kafkaPublisher',
    options: { ...options, brokers, ...(isTls && { tls: true }), ...saslOf(login) },
  }
}

function saslOf({
  user,
  password,
  isTls,
  sasl = 'plain',
}: {
  readonly user: string | undefined
  readonly password: string | undefined
  readonly isTls: boolean
  readonly sasl?: string | undefined
}): object {
  if (!MECHANISMS.includes(sasl)) throw new UsageError(`--publisher: ?sasl= must be ${MECHANISMS.join(', ')}`)
  if (user === undefined) return {}
  if (sasl === 'plain' && !isTls) {
    throw new UsageError(
      '--publisher kafka: would send its password readable; use kafka+ssl://, or ?sasl=scram-sha-512 or scram-sha-256',
    )
  }
  return { sasl: { mechanism: sasl.toUpperCase(), username: user, password: password ?? '' } }
}

function natsCall(url: PublisherUrl): BrokerCall {
  const { scheme, user, password } = url
  const options = urlOptions(url, {
    ...{ stream: 'text', credentialsFile: 'text', inboxPrefix: 'text', maxInFlight: 'number' },
    ...TIMES_AND_SIZE,
  })
  refusePath(url)
  const servers = hostsOf(url).map((host) => `${scheme}://${host}`)
  // NATS itself takes a user without a password as a token.
  const login = user === undefined ? {} : password === undefined ? { token: user } : { user, password }
  return { package: '@txbox/nats', make: 'natsPublisher', options: { ...options, servers, ...login } }
}

function redisCall(url: PublisherUrl): BrokerCall {
  const { scheme, path } = url
  const { prefix, ...options } = urlOptions(url, {
    ...{ maxLength: 'number', waitReplicas: 'number', prefix: 'text' },
    ...TIMES_AND_SIZE,
  })
  const stream = ({ topic }: OutboxMessage): string => `${String(prefix)}${topic}`
  return {
    package: '@txbox/redis',
    make: 'redisPublisher',
    options: {
      ...options,
      url: `${scheme}://${loginOf(url)}${oneHost(url)}${path}`,
      ...(prefix !== undefined && { stream }),
    },
  }
}

function sqsCall(url: PublisherUrl): BrokerCall {
  const { hosts, user, scheme } = url
  const options = urlOptions(url, {
    ...{ endpoint: 'text', concurrency: 'number', attributes: 'list' },
    ...TIMES_AND_SIZE,
  })
  refusePath(url)
  if (user !== undefined) {
    throw new UsageError(
      `--publisher ${scheme}: takes no user and password; credentials come from the environment, as the AWS SDK finds them`,
    )
  }
  if (hosts.length > 1) throw new UsageError(`--publisher ${scheme}: takes one region`)
  const [region] = hosts
  return {
    package: '@txbox/sqs',
    make: 'sqsPublisher',
    // A queue needs no right at SNS, and a topic none at SQS: the scheme decides which of them is asked.
    options: {
      ...options,
      ...(region !== undefined && { region }),
      ...(scheme === 'sns' && { check: 'sns' }),
    },
  }
}

/** The URL for `rabbitmqPublisher` and its options. Parameters of its client stay in the URL. */
export function rabbitmqOptions(
  url: PublisherUrl,
  exchange: string | undefined,
): Readonly<Record<string, unknown>> {
  // A parameter that asks for TLS is passed on to the package, whose error says how to ask for TLS.
  const tls = [...url.query.keys()]
    .filter((name) => ASKS_FOR_TLS.test(name))
    .map((name) => [name, 'text'] as const)
  const client: Readonly<Record<string, ValueKind>> = {
    ...{ heartbeat: 'number', frameMax: 'number', channelMax: 'number', locale: 'text' },
    ...Object.fromEntries(tls),
  }
  const options = urlOptions(url, {
    ...{ exchange: 'text', exchangeType: 'text', assertExchange: 'flag' },
    ...TIMES_AND_SIZE,
    ...client,
  })
  if (exchange !== undefined && options['exchange'] !== undefined) {
    throw new UsageError('--exchange and ?exchange= of --publisher: give one of them')
  }
  const ours = Object.entries(options).filter(([name]) => !Object.hasOwn(client, name))
  const query = Object.entries(options)
    .filter(([name]) => Object.hasOwn(client, name))
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
  const vhost = url.path === '' ? '' : `/${encodeURIComponent(url.path.slice(1))}`
  const search = query.length === 0 ? '' : `?${query.join('&')}`
  return {
    exchange: exchange ?? 'txbox',
    ...Object.fromEntries(ours),
    url: `${url.scheme}://${loginOf(url)}${oneHost(url)}${vhost}${search}`,
  }
}

function loginOf({ user, password }: PublisherUrl): string {
  if (user === undefined && password === undefined) return ''
  const secret = password === undefined ? '' : `:${encodeURIComponent(password)}`
  return `${encodeURIComponent(user ?? '')}${secret}@`
}

function hostsOf({ hosts, scheme }: PublisherUrl): readonly string[] {
  if (hosts.length === 0) throw new UsageError(`--publisher ${scheme}: needs a host: ${scheme}://host`)
  return hosts
}

function oneHost(url: PublisherUrl): string {
  const [host, ...others] = hostsOf(url)
  if (others.length > 0) throw new UsageError(`--publisher ${url.scheme}: takes one host`)
  return host!
}

function refusePath({ path, scheme }: PublisherUrl): void {
  if (path !== '' && path !== '/') throw new UsageError(`--publisher ${scheme}: takes no path`)
}
