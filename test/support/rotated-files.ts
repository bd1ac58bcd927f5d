/**
 * The files of test/contract that the quick tier runs on one of the databases, by turns: property tests and stress tests,
 * and what relays, consumers and collectors decide after statements that other files test on every database. Each of
 * these files takes seconds, and other files prove its rules on every database (test/unit/guarantees.test.ts checks it).
 * The order decides which database a file gets, so neighbours take about the same time.
 */
export const ROTATED_FILES: readonly string[] = [
  'relay-leases',
  'relay-database-failure',
  'relay-unanswered',
  'relay-payloads',
  'relay-order-concurrency',
  'relay-cut-off',
  'relay-dead-letter-pages',
  'gc-batches',
  'relay-store-locked',
  'inbox-lock-timeout',
  'queue-source',
  'relay-outage',
  'queue-stress',
  'queue-source-contract',
  'relay-inbox',
  'relay-stop',
  'relay-rejections',
  'relay-drain',
  'versioning-example',
  'versioning-rounding',
  'relay-order-property',
  'relay-slow-messages',
  'relay-start',
  'versioning-property',
  'relay-history-property',
  'relay-resend',
  'queue-killed',
  'outbox-deduplication-property',
  'outbox-lock-keys-order',
  'relay-order',
].map((name) => `test/contract/${name}.test.ts`)
