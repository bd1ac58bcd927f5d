export interface Violation {
  /** The check that failed. */
  readonly check: CheckName
  readonly text: string
  /** The id of the first message concerned, if there is one. */
  readonly id?: string | undefined
  readonly key?: string | undefined
}

/** Everything that is checked, in the order of the report, and what it means. */
export const CHECKS = {
  published: 'every committed message is published (but for those that a failover lost)',
  'rolled back': 'nothing of a transaction that rolled back is published',
  'same bytes': 'all copies of a message are the same',
  order: 'the first copies of each key come in the order of the commits',
  scheduled: 'no scheduled message comes early, through the outbox, the queue or to a local consumer',
  deduplicated: 'each request has one message, which all its sends name',
  'one effect': 'each published message has one effect',
  'claim and effect': 'there is no claim without its effect, and no effect without its claim',
  'consumer dead letters': 'only messages that were made to fail become dead letters of a consumer',
  'queue effect': 'each committed message of the queue has one effect, and no other message has any',
  'queue order': 'the effects of each key of the queue come in the order of the commits',
  'one at a time': 'no two messages of a key of the queue are handled at the same time',
  'stuck key': 'each key of the queue has a message that a receiver will look at',
  'queue dead letters': 'only messages that were made to fail become dead letters of the queue',
  'local effect':
    'each committed message has one effect at each local consumer, and no other message has any',
  'local order': 'the effects of each key come in the order of the commits at each local consumer',
  'local one at a time': 'no two messages of a key are handled at the same time at a local consumer',
  'local dead letters': 'only messages that were made to fail become dead letters of a local consumer',
  'http effect':
    'each answered HTTP request has one effect (but for those that a failover lost), and none has two',
  'http answer': 'all 2xx answers to an HTTP request name its one effect, and no other answer is unexplained',
  'http response':
    'each effect of an HTTP request is committed with its response, and no response without it',
  'http charge':
    'each answered request under a lease was charged at least once, never by two at a time, and all its 2xx answers name one charge (but for failovers)',
  'http standstill':
    'no HTTP request waits for its 2xx beyond the lease + 5 s while its database is well, or at the end',
  'version order': 'the version buffer applies each key in order, without a gap',
  'nothing left': 'nothing is parked, waiting, queued, claimed or leased at the end',
  standstill:
    'no shard stands still beyond its lease + 5 s (parked messages and local consumers + 20 s) while its database and broker are well',
  'one owner': 'a relay publishes only in shards that it holds',
  fence: 'only the holder of a shard settles its messages',
  'killing message': 'a message that kills relays is given up after its attempts',
  duplicates: 'no more copies than one batch for each shard and fault',
  'dead letters': 'only messages that were made to fail become dead letters',
  resources: 'memory and connections stay within their bounds',
  'clean end': 'every process ends by itself when it is told to, and no process crashes',
} as const

export type CheckName = keyof typeof CHECKS

/** The verdict of one check. */
export interface Verdict {
  readonly check: CheckName
  /** The number of observations: a check without observations proves nothing. */
  readonly looked: number
  readonly violations: readonly Violation[]
}

export function found(
  check: CheckName,
  looked: number,
  violations: readonly Omit<Violation, 'check'>[],
): Omit<Verdict, 'check'> {
  return { looked, violations: violations.map((violation) => ({ check, ...violation })) }
}

export function ofKey(key: string | undefined): string {
  return key === undefined ? '' : ` of ${key}`
}
