import { InvalidOptionError } from '@txbox/core'
import { propertyOf, tlsOption, type OptionChecker, type TlsOptions } from '@txbox/core/internal'
import { clientKind, type ClientKind, type RedisStreamsClient } from './command-port.ts'
import { redisAddress, type RedisAddress } from './redis-address.ts'

/** An hour. */
const LONGEST_TIMEOUT_MS = 3_600_000

/** Certificates, with the meanings and defaults of Node's `tls.connect`. */
export type RedisTlsOptions = TlsOptions

/** How to get a connection: of our own to this address, or the client that the user has passed. */
export type ConnectSettings = {
  /** For error messages, without user and password. */
  readonly name: string
  /** The name of the connection in CLIENT LIST. */
  readonly clientName: string
  readonly connectTimeoutMs: number
  readonly answerTimeoutMs: number
} & (
  | { readonly address: RedisAddress; readonly tls: TlsOptions; readonly client?: never }
  | {
      readonly client: RedisStreamsClient
      readonly kind: ClientKind
      /** Whether commands go through the client itself, and not through a connection of our own to the same server. */
      readonly sharesClient: boolean
      readonly address?: never
    }
)

const TIMEOUT = { min: 10, max: LONGEST_TIMEOUT_MS }

/**
 * Checks the options `url`, `client`, `tls`, `connectTimeoutMs` and `confirmTimeoutMs`.
 *
 * @throws {InvalidOptionError} for a wrong option. The text shows neither an address nor a password.
 */
export function connectSettings(
  check: OptionChecker,
  options: {
    readonly url?: string | undefined
    readonly client?: RedisStreamsClient | undefined
    readonly tls?: TlsOptions | undefined
  },
  { clientName, sharesClient }: { readonly clientName: string; readonly sharesClient: boolean },
): ConnectSettings {
  const { url, client, tls } = options
  if ((url === undefined) === (client === undefined)) {
    throw new InvalidOptionError(
      `${check.where}: pass one of the options 'url' (redis://host:6379) and 'client' (a client of node-redis or ioredis).`,
    )
  }
  const times = {
    connectTimeoutMs: check.milliseconds('connectTimeoutMs', { ...TIMEOUT, default: 10_000 }),
    answerTimeoutMs: check.milliseconds('confirmTimeoutMs', { ...TIMEOUT, default: 30_000 }),
  }
  if (client === undefined) {
    const address = redisAddress(check)
    if (tls !== undefined && !address.isTls) throw check.wrong('tls', 'absent, unless the URL is rediss://…')
    return { name: `Redis at ${address.name}`, clientName, ...times, address, tls: tlsOption(check, tls) }
  }
  const kind = clientKind(client)
  if (kind === undefined) throw check.wrong('client', 'a client of node-redis or ioredis')
  for (const name of sharesClient ? ['tls', 'connectTimeoutMs'] : ['tls']) {
    if (propertyOf(options, name) !== undefined) throw check.wrong(name, "absent with the option 'client'")
  }
  return { name: 'Redis', clientName, ...times, client, kind, sharesClient }
}

/**
 * A client that keeps commands while it is not connected, or sends them again by itself, would publish messages at a time at which
 * the relay takes them for unpublished.
 *
 * @throws {InvalidOptionError} for such a client.
 */
export function refuseKeptCommands(check: OptionChecker, client: RedisStreamsClient, kind: ClientKind): void {
  const options = propertyOf(client, 'options')
  const refuse = (setting: string): InvalidOptionError =>
    new InvalidOptionError(
      `${check.where}: the option 'client' must be a client with ${setting}. Otherwise the client keeps commands while it has no ` +
        'connection, and sends messages when nobody expects it. Create a client of its own for the publisher.',
    )
  if (kind === 'ioredis') {
    if (propertyOf(options, 'enableOfflineQueue') !== false) throw refuse('enableOfflineQueue: false')
    const isCluster = typeof propertyOf(client, 'nodes') === 'function'
    if (!isCluster && propertyOf(options, 'autoResendUnfulfilledCommands') !== false) {
      throw refuse('autoResendUnfulfilledCommands: false')
    }
  } else if (kind === 'node-redis' && propertyOf(options, 'disableOfflineQueue') !== true) {
    throw refuse('disableOfflineQueue: true')
  }
}
