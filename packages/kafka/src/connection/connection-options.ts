import { isIP } from 'node:net'
import { OptionChecker, tlsOption, type TlsOptions } from '@txbox/core/internal'
import type { ClientSettings } from './client-settings.ts'

const MOST_BROKERS = 100

/** An hour. */
const LONGEST_TIMEOUT_MS = 3_600_000

/** The bounds of the options that are times. */
export const TIMEOUT = { min: 10, max: LONGEST_TIMEOUT_MS }

/** A name or an address, in brackets if it has colons, and a port. */
const BROKER = /^(?:\[([\da-f:.]+)\]|([\w.-]+)):(\d{1,5})$/i

const MECHANISMS = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER'] as const

/** The names of the options by which a client connects. */
export const CONNECTION_OPTIONS = ['brokers', 'clientId', 'tls', 'sasl', 'connectTimeoutMs'] as const

/** Certificates, with the meanings and defaults of Node's `tls.connect`. */
export type KafkaTlsOptions = TlsOptions

/** How the client logs in. */
export type KafkaSaslOptions =
  | {
      /** `'PLAIN'` shows the password to everyone on the network, unless `tls` is set. */
      mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
      username: string
      password: string
    }
  | {
      mechanism: 'OAUTHBEARER'
      /** Returns a token of printable ASCII characters. Called for each connection, and when a login expires. */
      token: () => Promise<string>
    }

/** The options by which a client connects to Kafka. */
export interface KafkaConnectionOptions {
  /** The brokers that are asked for the others, each as `host:port`; an IPv6 address stands in brackets. 1 to 100. */
  brokers: readonly string[]
  /** The name of this client in Kafka's logs and quotas, 1 to 255 characters without white space. @default 'txbox' */
  clientId?: string | undefined
  /** `true` connects by TLS, and trusts the authorities that Node trusts. @default false */
  tls?: boolean | KafkaTlsOptions | undefined
  /** The login. @default no login */
  sasl?: KafkaSaslOptions | undefined
  /** How long connecting may take, with login, in milliseconds. 10 ms to an hour. @default 10_000 */
  connectTimeoutMs?: number | undefined
}

/** @throws {InvalidOptionError} for a wrong option. The text shows neither an address nor a password. */
export function clientSettings(check: OptionChecker, { tls, sasl }: KafkaConnectionOptions): ClientSettings {
  const brokers = check.list('brokers', isBroker, `1 to ${MOST_BROKERS} addresses, each as 'host:port'`)
  if (brokers.length === 0 || brokers.length > MOST_BROKERS) {
    throw check.wrong('brokers', `1 to ${MOST_BROKERS} addresses, each as 'host:port'`)
  }
  const clientId = check.text('clientId', { max: 255, default: 'txbox' })
  if (/\s/.test(clientId)) throw check.wrong('clientId', 'text without white space')
  return {
    brokers,
    clientId,
    ...tlsSettings(check, tls, brokers),
    ...saslSettings(check, sasl),
    connectTimeoutMs: check.milliseconds('connectTimeoutMs', { ...TIMEOUT, default: 10_000 }),
  }
}

function isBroker(value: unknown): value is string {
  const port = typeof value === 'string' ? Number(BROKER.exec(value)?.[3]) : NaN
  return port >= 1 && port <= 65_535
}

function tlsSettings(
  check: OptionChecker,
  tls: boolean | KafkaTlsOptions | undefined,
  brokers: readonly string[],
): Pick<ClientSettings, 'tls' | 'tlsServerName'> {
  if (tls === undefined || tls === false) return {}
  const { servername, ...certificates } = tlsOption(check, tls === true ? undefined : tls)
  // The client sends no server name to a broker by itself, and TLS does not allow an IP address as a server name.
  const areNames = brokers.every((broker) => isIP(BROKER.exec(broker)?.[1] ?? BROKER.exec(broker)![2]!) === 0)
  return { tls: certificates, tlsServerName: servername ?? areNames }
}

function saslSettings(
  check: OptionChecker,
  sasl: KafkaSaslOptions | undefined,
): Pick<ClientSettings, 'sasl'> {
  if (sasl === undefined) return {}
  const login = new OptionChecker(`${check.where}: the option 'sasl'`, sasl)
  const mechanism = login.oneOf('mechanism', MECHANISMS, '' as 'PLAIN')
  if (mechanism === 'OAUTHBEARER') {
    const token = login.known('mechanism', 'token').callback<() => Promise<string>>('token')
    if (token === undefined) throw login.wrong('token', 'a function')
    return { sasl: { mechanism, token } }
  }
  login.known('mechanism', 'username', 'password')
  const limit = { max: 10_000 }
  return {
    sasl: { mechanism, username: login.text('username', limit), password: login.text('password', limit) },
  }
}
