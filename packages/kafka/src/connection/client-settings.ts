import type { ConnectionOptions } from 'node:tls'
import { oneLine, type TlsOptions } from '@txbox/core/internal'
import type { SASLOptions } from '@platformatic/kafka'

/** The number of brokers that a connection attempt can try before its time is over. */
const TRIED_BROKERS = 3

const NAMED_BROKERS = 3

/** The characters of a token that stand in a login unchanged. */
const TOKEN = /^[\x20-\x7E]+$/

/** How to connect to the brokers, for publishers and sources. */
export interface ClientSettings {
  /** Each as `host:port`. */
  readonly brokers: readonly string[]
  readonly clientId: string
  readonly tls?: Omit<TlsOptions, 'servername'>
  /** The name for which certificates are checked; `true`: the host of each broker. */
  readonly tlsServerName?: string | boolean
  readonly sasl?:
    | { readonly mechanism: 'OAUTHBEARER'; readonly token: () => Promise<string> }
    | {
        readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
        readonly username: string
        readonly password: string
      }
  readonly connectTimeoutMs: number
}

/** The brokers for error messages, without user and password. */
export function addressOf({ brokers }: ClientSettings): string {
  const named = brokers.slice(0, NAMED_BROKERS).join(', ')
  return brokers.length > NAMED_BROKERS ? `${named} and ${brokers.length - NAMED_BROKERS} others` : named
}

/** Texts that no error may show. */
export function secretsOf({ sasl }: ClientSettings): readonly string[] {
  return sasl !== undefined && 'password' in sasl ? [sasl.password] : []
}

/**
 * The options of the client by which it connects.
 *
 * @param turn the number of the attempt: each one begins with another broker.
 */
export function clientOptions(settings: ClientSettings, turn: number) {
  const { brokers, clientId, tls, tlsServerName, sasl, connectTimeoutMs } = settings
  const first = turn % brokers.length
  return {
    clientId,
    bootstrapBrokers: [...brokers.slice(first), ...brokers.slice(0, first)],
    ...(tls === undefined ? {} : { tls: tls as ConnectionOptions, tlsServerName: tlsServerName! }),
    ...(sasl === undefined ? {} : { sasl: saslOptions(sasl) }),
    autocreateTopics: false,
    connectTimeout: Math.ceil(connectTimeoutMs / Math.min(brokers.length, TRIED_BROKERS)),
  }
}

function saslOptions(sasl: NonNullable<ClientSettings['sasl']>): SASLOptions {
  if (sasl.mechanism !== 'OAUTHBEARER') return sasl
  return {
    mechanism: sasl.mechanism,
    token: () => checkedToken(sasl.token),
    authBytesValidator: refusedToken,
  }
}

/** Checks the token here, because the client would throw in a callback of its socket, where nothing can catch the error. */
async function checkedToken(token: () => Promise<string>): Promise<string> {
  const text: unknown = await token()
  if (typeof text === 'string' && TOKEN.test(text)) return text
  throw new TypeError("the option 'sasl.token' must return a token of printable ASCII characters")
}

/** Reports a token that Kafka refuses: its answer to the login is no error, but has the reason as text (RFC 7628). */
function refusedToken(answer: Buffer | null, callback: (error: Error | null, answer?: Buffer) => void): void {
  if (answer === null || answer.byteLength === 0) callback(null, answer ?? Buffer.alloc(0))
  else callback(new Error(`Kafka refused the token: ${oneLine(String(answer), 200)}`))
}
