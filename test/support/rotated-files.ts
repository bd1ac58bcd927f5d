/** Files that the quick tier runs on one of several databases, by turns. */
interface Rotation {
  /** The projects that the files take turns on. */
  readonly projects: readonly string[]
  readonly files: readonly string[]
  /** A pattern of the files that run on each of these databases, unless they are rotated. */
  readonly everyDatabase: string
}

/**
 * Property tests and stress tests, and what relays, consumers and collectors decide after statements that other files test
 * on every database. Each of these files takes seconds, and other files prove its rules on every database
 * (test/unit/guarantees.test.ts checks it). The order decides which database a file gets, so neighbours take about the
 * same time.
 */
const CONTRACT: readonly string[] = [
  'relay-leases',
  'relay-suspects',
  'consumer-queue-leases',
  'idle-transactions',
  'dead-idle-connections',
  'dead-idle-connections-hidden',
  'relay-database-failure',
  'relay-unanswered',
  'relay-payloads',
  'relay-order-concurrency',
  'relay-cut-off',
  'relay-dead-letter-pages',
  'gc-batches',
  'relay-store-locked',
  'consumer-unanswered',
  'queue-late-settlement',
  'inbox-lock-timeout',
  'read-only-server',
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
  'inbox-schema',
  'queue-order',
  'relay-dead-letters',
  'outbox-deduplication-concurrency',
  'relay-dead-letter-selections',
  'outbox-deduplication-property',
  'outbox-lock-keys-order',
  'relay-order',
].map((name) => `test/contract/${name}.test.ts`)

const CONTRACT_MYSQL: readonly string[] = ['queue-store', 'relay-store-refused', 'relay-statements'].map(
  (name) => `test/contract-mysql/${name}.test.ts`,
)

export const ROTATIONS: readonly Rotation[] = [
  {
    projects: ['postgres', 'mysql', 'mariadb'],
    files: CONTRACT,
    everyDatabase: 'test/contract/*.test.ts',
  },
  {
    projects: ['mysql-only', 'mariadb-only'],
    files: CONTRACT_MYSQL,
    everyDatabase: 'test/contract{,-mysql}/*.test.ts',
  },
]

export const ROTATED_FILES: ReadonlySet<string> = new Set(ROTATIONS.flatMap(({ files }) => files))
