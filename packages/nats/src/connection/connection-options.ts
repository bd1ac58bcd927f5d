import { tlsOption, type OptionChecker, type TlsOptions } from '@txbox/core/internal'
import { serverAddresses, type Login, type ServerAddresses } from './server-addresses.ts'

/** An hour. */
export const LONGEST_TIMEOUT_MS = 3_600_000

const TEXT_CHARACTERS = 10_000

/** The subjects below which a client receives answers: a name of letters, digits, `_` and `-`, or several with dots. */
const INBOX_PREFIX = /^[\w-]+(\.[\w-]+)*$/

/** Certificates, with the meanings and defaults of Node's `tls.connect`. */
export type NatsTlsOptions = TlsOptions

/** How to connect to NATS. */
export interface NatsConnectionOptions {
  /**
   * One or more servers of one cluster, each as `nats://host:4222`, or `tls://…` for TLS. The port 4222 may be left out. A URL may have a
   * user and a password, or a token, percent-encoded: `nats://user:password@host`. 1 to 100 servers, of which any may be connected to.
   */
  servers: string | readonly string[]
  /** The user, if the URL has none. */
  user?: string | undefined
  password?: string | undefined
  /** Logs in with a token instead of a user and a password. */
  token?: string | undefined
  /** Logs in with the JWT and the key of this file, such as `app.creds`. The file is read for each connection. */
  credentialsFile?: string | undefined
  /** Certificates, if the server's is from a private authority, or if the server asks for one. For `tls://` only. */
  tls?: NatsTlsOptions | undefined
  /** The subjects below which the client receives answers, if the user may not subscribe to all of `_INBOX`. @default '_INBOX' */
  inboxPrefix?: string | undefined
  /** How long connecting may take, with login, in milliseconds. 10 ms to an hour. @default 10_000 */
  connectTimeoutMs?: number | undefined
}

export const CONNECTION_OPTIONS = [
  'servers',
  'user',
  'password',
  'token',
  'credentialsFile',
  'tls',
  'inboxPrefix',
  'connectTimeoutMs',
] as const

export interface ConnectionSettings {
  readonly servers: ServerAddresses
  readonly login: Login | undefined
  /** Undefined: TLS only if the server has it. */
  readonly tls: TlsOptions | undefined
  readonly inboxPrefix: string
  readonly connectTimeoutMs: number
}

/** @throws {InvalidOptionError} for a wrong option. The text shows neither an address nor a password. */
export function connectionSettings(check: OptionChecker, options: NatsConnectionOptions): ConnectionSettings {
  const servers = serverAddresses(check, options.servers)
  if (options.tls !== undefined && !servers.areTls) {
    throw check.wrong('tls', "absent unless all servers are 'tls://…'")
  }
  const inboxPrefix = check.text('inboxPrefix', { max: 200, default: '_INBOX' })
  if (!INBOX_PREFIX.test(inboxPrefix)) {
    throw check.wrong('inboxPrefix', "names of letters, digits, '_' and '-', divided by dots")
  }
  return {
    servers,
    login: loginOf(check, options, servers.login),
    tls: servers.areTls ? tlsOption(check, options.tls) : undefined,
    inboxPrefix,
    connectTimeoutMs: check.milliseconds('connectTimeoutMs', {
      min: 10,
      max: LONGEST_TIMEOUT_MS,
      default: 10_000,
    }),
  }
}

function loginOf(
  check: OptionChecker,
  options: NatsConnectionOptions,
  ofUrl: Login | undefined,
): Login | undefined {
  const given = (['user', 'token', 'credentialsFile'] as const).filter((name) => options[name] !== undefined)
  const [kind, another] = given
  if (another !== undefined) throw check.wrong(another, `absent together with '${kind}'`)
  if (kind !== undefined && ofUrl !== undefined)
    throw check.wrong(kind, "absent if the option 'servers' has a login")
  if (options.password !== undefined && kind !== 'user')
    throw check.wrong('password', "absent without 'user'")
  const text = (name: string): string => check.text(name, { max: TEXT_CHARACTERS })
  if (kind === 'token') return { token: text('token') }
  if (kind === 'credentialsFile') return { credentialsFile: text('credentialsFile') }
  if (kind === undefined) return ofUrl
  return { user: text('user'), password: options.password === undefined ? undefined : text('password') }
}

/** The texts that no error message may show. */
export function secretsOf({ login }: ConnectionSettings): readonly string[] {
  if (login === undefined) return []
  if ('token' in login) return [login.token]
  return 'password' in login && login.password !== undefined ? [login.password] : []
}
