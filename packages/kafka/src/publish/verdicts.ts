import { PermanentError, RetryLaterError, type OutboxMessage, type PublishResult } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { Refusal } from '../connection/client-errors.ts'

const TEXT_CHARACTERS = 300

/**
 * The meaning of an answer for one partition or topic for its messages. `'retryable'` counts an attempt; `'uncounted'` does not: the
 * destination is in trouble, and not the message.
 */
type Verdict = 'final' | 'retryable' | 'uncounted'

interface Meaning {
  readonly name: string
  readonly verdict: Verdict
  readonly says: string
}

/** The codes that blame a message or its topic. With any other code, nothing is known of the messages. */
const MEANINGS: ReadonlyMap<number, Meaning> = new Map<number, Meaning>([
  [
    2,
    final(
      'CORRUPT_MESSAGE',
      'Kafka finds the record damaged, twice. Report this to the authors of @txbox/kafka',
    ),
  ],
  [
    3,
    {
      name: 'UNKNOWN_TOPIC_OR_PARTITION',
      verdict: 'retryable',
      says: 'Kafka has no such topic. Create the topic, or correct the name',
    },
  ],
  [5, uncounted('LEADER_NOT_AVAILABLE', 'a partition has no leader. Look at its brokers')],
  [6, uncounted('NOT_LEADER_OR_FOLLOWER', 'the leader of its partition is changing')],
  [
    7,
    uncounted('REQUEST_TIMED_OUT', 'the replicas did not confirm in time. The leader has stored the message'),
  ],
  [
    10,
    final(
      'MESSAGE_TOO_LARGE',
      'the record is larger than the max.message.bytes of the topic. Publish a smaller message, or raise that setting',
    ),
  ],
  [17, final('INVALID_TOPIC_EXCEPTION', 'Kafka does not accept the name of the topic')],
  [18, final('RECORD_LIST_TOO_LARGE', 'the record is larger than the segment.bytes of the topic')],
  [19, uncounted('NOT_ENOUGH_REPLICAS', 'the partition has fewer replicas in sync than min.insync.replicas')],
  [
    20,
    uncounted(
      'NOT_ENOUGH_REPLICAS_AFTER_APPEND',
      'the partition has fewer replicas in sync than min.insync.replicas. The leader has stored the message',
    ),
  ],
  [
    29,
    {
      name: 'TOPIC_AUTHORIZATION_FAILED',
      verdict: 'retryable',
      says: 'the user may not publish to the topic, or there is no such topic. Grant WRITE and DESCRIBE',
    },
  ],
  [
    32,
    final(
      'INVALID_TIMESTAMP',
      'Kafka does not accept its time of creation. Compare the clocks of both servers',
    ),
  ],
  [44, final('POLICY_VIOLATION', 'a policy of Kafka refuses the record')],
  [56, uncounted('KAFKA_STORAGE_ERROR', 'the disk of the leader fails')],
  [72, uncounted('LISTENER_NOT_FOUND', 'the leader of a partition has no listener for this client')],
  [87, final('INVALID_RECORD', 'Kafka refuses the record. A compacted topic takes no record without a key')],
  [89, uncounted('THROTTLING_QUOTA_EXCEEDED', 'a quota of Kafka is used up')],
])

/** Codes by which one record makes Kafka refuse its whole batch. */
const BLAMES_A_RECORD: ReadonlySet<number> = new Set([2, 10, 18, 32, 44, 87])

export function blamesRecord(code: number): boolean {
  return BLAMES_A_RECORD.has(code)
}

/** Whether the code says that a batch is too large, which may be true of each of its records or of none. */
export function blamesSize(code: number): boolean {
  return code === 10 || code === 18
}

/** Whether the messages have a result. With another code, it is unknown whether they are stored. */
export function isMeaningful({ code }: Refusal): boolean {
  return MEANINGS.has(code)
}

/**
 * The result of a message that was refused with one of these codes.
 *
 * @param wasSeen whether this publisher has published to the topic before: then a missing topic is an outage of its own.
 */
export function refusedResult(
  { id }: OutboxMessage,
  topic: string,
  { code, text }: Refusal,
  { wasSeen, bytes }: { readonly wasSeen: boolean; readonly bytes: number },
): PublishResult {
  const { name, verdict, says } = MEANINGS.get(code)!
  const size = blamesSize(code) ? ` The record has about ${bytes} bytes.` : ''
  const own = text === undefined ? '' : ` Kafka says: ${oneLine(text, TEXT_CHARACTERS)}`
  const message =
    `Message ${oneLine(id)} was not accepted for topic '${oneLine(topic, 100)}' (${code} ${name}): ${says}.${size}${own}`.trim()
  if (verdict === 'final') return { status: 'rejected', retryable: false, error: new PermanentError(message) }
  const error = new RetryLaterError({ message })
  const isOutage = verdict === 'uncounted' || (code === 3 && wasSeen)
  return { status: 'rejected', retryable: true, error, ...(isOutage && { counted: false }) }
}

function final(name: string, says: string): Meaning {
  return { name, verdict: 'final', says }
}

function uncounted(name: string, says: string): Meaning {
  return { name, verdict: 'uncounted', says }
}
