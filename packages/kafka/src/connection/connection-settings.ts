import type { ClientSettings } from './client-settings.ts'

/** How to connect to the brokers, and how to produce. */
export interface ConnectionSettings extends ClientSettings {
  readonly compression: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd'
  readonly idempotent: boolean
  readonly confirmTimeoutMs: number
}
