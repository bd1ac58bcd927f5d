import { hash } from 'node:crypto'
import { days } from '../time/durations.ts'
import { InvalidMessageError } from '../errors/errors.ts'
import { inboxKey } from '../messages/keys.ts'
import { LIMITS } from '../options/limits.ts'
import { OptionChecker } from '../options/options.ts'
import { nameOf } from '../text/name-of.ts'

/** How messages that are sent with the same deduplication id are stored only once, as in a FIFO queue. */
export interface DeduplicationOptions {
  /**
   * How long an id is remembered, in milliseconds: from the send that stored the message, by the database's clock.
   * Duplicates do not extend the window, and neither do delivery and deletion of the message. A resend after the window
   * is stored as a new message. From 1 second to 15 days. @default 300_000
   */
  readonly windowMs?: number | undefined
  /**
   * A message without `deduplicationId` gets the SHA-256 of its stored payload as its id; headers and type do not
   * count. Without this option, a message without an id is refused. @default false
   */
  readonly contentBased?: boolean | undefined
  /**
   * `'queue'`: an id counts once for each topic. `'key'`: an id counts once for each topic and ordering key; a message
   * without a key has the scope of its topic. @default 'queue'
   */
  readonly scope?: 'queue' | 'key' | undefined
  /**
   * Has an effect only with `contentBased`. `'content'`: a message with an id is also a duplicate of an earlier message
   * without an id that has the same payload, as in Yandex Message Queue; this costs one more round trip for a message
   * with an id. `'id'`: only ids are compared, as in Amazon SQS. @default 'content'
   */
  readonly contentMatch?: 'content' | 'id' | undefined
}

/** Checked {@link DeduplicationOptions}. */
export type DeduplicationRules = {
  readonly [N in keyof DeduplicationOptions]-?: DeduplicationOptions[N] & {}
}

export const DEDUPLICATION_HEADER = 'deduplication-id'

/**
 * The consumer whose claims are the history of the deduplicated sends of outboxes. Consumers that begin with `@` are
 * txbox's own.
 */
export const SENDS_CONSUMER = '@publish'

/** The method that sends messages, and the place of its history. */
export interface SendHistory {
  /** Each error message begins with this name. */
  readonly where: 'publish' | 'send'
  /** The consumer whose claims are the history. */
  readonly consumer: string
}

/** @throws {InvalidOptionError} for an unknown, wrong or unbounded option. */
export function deduplicationRules(where: string, options: DeduplicationOptions): DeduplicationRules {
  const check = new OptionChecker(`${where}: deduplication`, options)
  check.known('windowMs', 'contentBased', 'scope', 'contentMatch')
  return {
    windowMs: check.milliseconds('windowMs', { min: 1000, max: days(15), default: 300_000 }),
    contentBased: check.flag('contentBased', false),
    scope: check.oneOf('scope', ['queue', 'key'], 'queue'),
    contentMatch: check.oneOf('contentMatch', ['content', 'id'], 'content'),
  }
}

/** The values that decide whether a send is a duplicate. */
export interface SendIdentity {
  /** The id that the sender passed, or the SHA-256 of the content. */
  readonly id: string
  /** The stored key of the claim that remembers the send. */
  readonly key: string
  /** The stored key of a second claim that must not exist if the send is new. The send does not keep this claim. */
  readonly mustBeFree: string | undefined
}

/**
 * Ids and hashes of content share one name space: an id that is the SHA-256 of another message's content, in
 * hexadecimal, names that message.
 *
 * @param payload the stored payload: only these bytes are the content.
 * @throws {InvalidMessageError} for an id that is not allowed, and for a message without an id if `contentBased` is not set.
 */
export function sendIdentity(
  { where, consumer }: SendHistory,
  rules: DeduplicationRules,
  message: { readonly topic: string; readonly key: string | undefined; readonly deduplicationId: unknown },
  payload: Uint8Array,
): SendIdentity {
  const given = checkDeduplicationId(where, message.deduplicationId)
  if (given === undefined && !rules.contentBased) {
    throw new InvalidMessageError(
      `${where}: the message has no 'deduplicationId', which the option 'deduplication' requires. Give each message an id, or set ` +
        "'contentBased' to use the SHA-256 of the payload. Nothing was written.",
    )
  }
  const keyOf = (value: string): string => {
    const marked = SHA_256.test(value) ? CONTENT_MARK + value : value
    const inKey = rules.scope === 'key' && message.key !== undefined
    const parts = inKey ? [message.topic, message.key, marked] : [message.topic, marked]
    return inboxKey(parts, consumer).stored
  }
  if (given !== undefined && !(rules.contentBased && rules.contentMatch === 'content')) {
    return { id: given, key: keyOf(given), mustBeFree: undefined }
  }
  const content = hash('sha256', payload, 'hex')
  if (given === undefined || given === content) {
    return { id: content, key: keyOf(content), mustBeFree: undefined }
  }
  return { id: given, key: keyOf(given), mustBeFree: keyOf(content) }
}

const SHA_256 = /^[0-9a-f]{64}$/

/**
 * No id contains this character, and every id sorts before it. Claims are made in the order of their keys, so that
 * concurrent senders of one id wait at the claim of the id, which stays. If they waited at the claim of the content, which
 * is removed again, MySQL and MariaDB would find a deadlock among them.
 */
const CONTENT_MARK = '§'

/** Visible ASCII characters, which the headers of every broker can contain. */
const DEDUPLICATION_ID = new RegExp(`^[!-~]{1,${LIMITS.deduplicationIdCharacters}}$`)

/** @throws {InvalidMessageError} for an id that is not allowed. @returns `undefined` for a missing id. */
function checkDeduplicationId(where: string, id: unknown): string | undefined {
  if (id === undefined || id === null) return undefined
  if (typeof id === 'string' && DEDUPLICATION_ID.test(id)) return id
  throw new InvalidMessageError(
    `${where}: 'deduplicationId' must be text of 1 to ${LIMITS.deduplicationIdCharacters} visible ASCII characters (! to ~, ` +
      `no spaces), not ${nameOf(id)}. Nothing was written.`,
  )
}
