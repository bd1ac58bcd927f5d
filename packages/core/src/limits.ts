/**
 * A limit on everything that comes from outside. Characters are UTF-16 code units, as `string.length` counts them.
 * The same on every database, so that a message that is accepted on one is accepted on all.
 */
export const LIMITS = {
  /** Name of a consumer. */
  consumerCharacters: 100,
  /** An inbox key that is longer than this in UTF-8 is stored as its SHA-256. */
  storedKeyBytes: 512,
  /** Parts of a composite key. */
  keyParts: 32,
  /** A correlation id, beside a claim or an outbox message. */
  correlationIdCharacters: 255,
  topicCharacters: 255,
  typeCharacters: 255,
  orderingKeyCharacters: 255,
  contentTypeCharacters: 255,
  messageIdCharacters: 255,
  /** All headers of one outbox message, as JSON. */
  headersBytes: 65_536,
  /** A payload as stored: 10 MiB. */
  payloadBytes: 10_485_760,
  /** All payloads of one `publish`, as stored: 64 MiB. */
  batchPayloadBytes: 67_108_864,
  /** Messages in one `publish` or `processBatch`. */
  batchMessages: 10_000,
  /** Nesting of a payload that is fingerprinted. */
  fingerprintDepth: 500,
  /** The longest duration that an option takes: a hundred years. */
  durationMs: 3_155_760_000_000,
} as const
