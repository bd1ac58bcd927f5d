import type { TlsOptions } from '@txbox/core/internal'

/** How to connect to the brokers, and how to produce. */
export interface ConnectionSettings {
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
  readonly compression: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd'
  readonly idempotent: boolean
  readonly confirmTimeoutMs: number
  readonly connectTimeoutMs: number
}

const NAMED_BROKERS = 3

/** The brokers for error messages, without user and password. */
export function addressOf({ brokers }: ConnectionSettings): string {
  const named = brokers.slice(0, NAMED_BROKERS).join(', ')
  return brokers.length > NAMED_BROKERS ? `${named} and ${brokers.length - NAMED_BROKERS} others` : named
}
