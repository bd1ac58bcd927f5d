/**
 * Limits on all input. Characters are UTF-16 code units, as `string.length` counts them. The limits are the same on
 * every database, so that a message that one database accepts is accepted by all.
 */
export const LIMITS = {
  consumerCharacters: 100,
  /** An inbox key that is longer than this in UTF-8 is stored as its SHA-256. */
  storedKeyBytes: 512,
  keyParts: 32,
  correlationIdCharacters: 255,
  /** The stored result of a claim, as JSON in UTF-8: 1 MiB. */
  resultBytes: 1_048_576,
  topicCharacters: 255,
  typeCharacters: 255,
  orderingKeyCharacters: 255,
  contentTypeCharacters: 255,
  messageIdCharacters: 255,
  /** Visible ASCII characters. */
  deduplicationIdCharacters: 128,
  /** All headers that a sender gives one outbox message together, as JSON. */
  headersBytes: 65_536,
  /** A payload as stored: 10 MiB. */
  payloadBytes: 10_485_760,
  /** All payloads of one `publish` together, as stored: 64 MiB. */
  batchPayloadBytes: 67_108_864,
  /** Messages in one `publish` or `processBatch`. */
  batchMessages: 10_000,
  /**
   * Distinct ordering keys in one `publish` of an outbox with `lockKeys`. On PostgreSQL each is a lock in memory that
   * all sessions of the server share.
   */
  lockedKeys: 1000,
  /** The nesting depth of a payload that is fingerprinted. */
  fingerprintDepth: 500,
  /** The longest duration that an option takes: a hundred years. */
  durationMs: 3_155_760_000_000,
} as const
