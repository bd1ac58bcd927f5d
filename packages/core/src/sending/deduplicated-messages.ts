import { afterForgetting, claimSends, type SendOutcome } from './deduplicated-sends.ts'
import {
  DEDUPLICATION_HEADER,
  sendIdentity,
  type DeduplicationRules,
  type SendHistory,
  type SendIdentity,
} from './deduplication.ts'
import { InvalidMessageError } from '../errors/errors.ts'
import type { NewMessage } from '../messages/messages.ts'
import { oneLine } from '../text/one-line.ts'
import type { InboxStore } from '../ports/inbox-store.ts'
import type { MessageToStore } from '../ports/outbox-store.ts'
import type { Session } from '../ports/session.ts'

/** No topic contains this character, so messages without a topic have a scope of their own. */
const NO_TOPIC = '\0'

/** A message whose headers contain its deduplication id, and the identity by which its send is compared. */
export interface DeduplicatedSend {
  readonly stored: MessageToStore
  readonly identity: SendIdentity
}

/** Stores messages unless they are duplicates: the option `deduplication` of an outbox or a queue. */
export class DeduplicatedMessages {
  readonly #inbox: InboxStore
  readonly #rules: DeduplicationRules
  readonly #history: SendHistory

  constructor(inbox: InboxStore, rules: DeduplicationRules, history: SendHistory) {
    this.#inbox = inbox
    this.#rules = rules
    this.#history = history
  }

  /** @throws {InvalidMessageError} when a message has no id, a wrong id, or the header of the id. */
  identify(
    messages: readonly Pick<NewMessage, 'deduplicationId'>[],
    stored: readonly MessageToStore[],
  ): readonly DeduplicatedSend[] {
    return stored.map((message, index) => {
      refuseHeader(this.#history.where, message.headers)
      const { topic = NO_TOPIC, key, payload } = message
      const { deduplicationId } = messages[index]!
      const identity = sendIdentity(this.#history, this.#rules, { topic, key, deduplicationId }, payload)
      const headers = { ...message.headers, [DEDUPLICATION_HEADER]: identity.id }
      return { stored: { ...message, headers }, identity }
    })
  }

  /** Stores the messages that are not duplicates with one call of `append`, in the transaction of the session. */
  async store(
    session: Session,
    messages: readonly DeduplicatedSend[],
    append: (session: Session, first: readonly MessageToStore[]) => Promise<void>,
  ): Promise<readonly SendOutcome[]> {
    const sends = messages.map(({ stored, identity }) => ({ messageId: stored.id, identity }))
    const history = { ...this.#history, windowMs: this.#rules.windowMs }
    const { outcomes, keys } = await claimSends(this.#inbox, session, sends, history)
    const first = messages.filter((_, index) => !outcomes[index]!.duplicate).map(({ stored }) => stored)
    if (first.length === 0) return outcomes
    try {
      await append(session, first)
    } catch (error) {
      throw await afterForgetting(this.#inbox, session, { ...history, keys }, error)
    }
    return outcomes
  }
}

/** @throws {InvalidMessageError} for a message with an id, which would be ignored without the option `deduplication`. */
export function refuseDeduplicationIds(
  { where }: Pick<SendHistory, 'where'>,
  messages: readonly Pick<NewMessage, 'deduplicationId'>[],
): void {
  const sender = where === 'publish' ? 'outbox' : 'queue'
  for (const { deduplicationId } of messages) {
    if (deduplicationId === undefined || deduplicationId === null) continue
    throw new InvalidMessageError(
      `${where}: a message has a 'deduplicationId', but the ${sender} was created without the option 'deduplication', so the id ` +
        'would be ignored. Set the option, or remove the id. Nothing was written.',
    )
  }
}

/** Some transports do not distinguish headers by case. */
function refuseHeader(where: string, headers: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(headers)) {
    if (name.toLowerCase() !== DEDUPLICATION_HEADER) continue
    throw new InvalidMessageError(
      `${where}: the header '${oneLine(name)}' is reserved for the deduplication id. Pass the id as 'deduplicationId'. Nothing ` +
        'was written.',
    )
  }
}
