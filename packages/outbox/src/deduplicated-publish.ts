import {
  InvalidMessageError,
  type DatabasePorts,
  type NewMessage,
  type NewStoredMessage,
  type Session,
} from '@txbox/core'
import {
  DEDUPLICATION_HEADER,
  afterForgetting,
  claimSends,
  oneLine,
  sendIdentity,
  type DeduplicationRules,
  type SendIdentity,
  type SendOutcome,
} from '@txbox/core/internal'

/** A message that carries its deduplication id, and what its send is compared by. */
export interface IdentifiedMessage {
  readonly stored: NewStoredMessage
  readonly identity: SendIdentity
}

/** Stores messages unless they are duplicates: the option `deduplication` of an outbox. */
export class DeduplicatedPublish {
  readonly #ports: Pick<DatabasePorts, 'inbox' | 'outbox'>
  readonly #rules: DeduplicationRules

  constructor(ports: Pick<DatabasePorts, 'inbox' | 'outbox'>, rules: DeduplicationRules) {
    this.#ports = ports
    this.#rules = rules
  }

  /** @throws {InvalidMessageError} when a message has no id, a wrong id, or the header of the id. */
  identify(
    messages: readonly NewMessage[],
    stored: readonly NewStoredMessage[],
  ): readonly IdentifiedMessage[] {
    return stored.map((message, index) => {
      refuseHeader(message.headers)
      const { topic, key, payload } = message
      const { deduplicationId } = messages[index]!
      const identity = sendIdentity(this.#rules, { topic, key, deduplicationId }, payload)
      const headers = { ...message.headers, [DEDUPLICATION_HEADER]: identity.id }
      return { stored: { ...message, headers }, identity }
    })
  }

  /** Stores the messages that are no duplicates, with one statement. */
  async store(
    session: Session,
    messages: readonly IdentifiedMessage[],
    options: { readonly notify: boolean; readonly lockKeys: boolean },
  ): Promise<readonly SendOutcome[]> {
    const { inbox, outbox } = this.#ports
    const sends = messages.map(({ stored, identity }) => ({ messageId: stored.id, identity }))
    const { outcomes, keys } = await claimSends(inbox, session, sends, this.#rules.windowMs)
    const first = messages.filter((_, index) => !outcomes[index]!.duplicate).map(({ stored }) => stored)
    if (first.length === 0) return outcomes
    try {
      await outbox.append(session, first, options)
    } catch (error) {
      throw await afterForgetting(inbox, session, keys, error)
    }
    return outcomes
  }
}

/** @throws {InvalidMessageError} for an id that no option `deduplication` would look at. */
export function refuseDeduplicationIds(messages: readonly NewMessage[]): void {
  for (const { deduplicationId } of messages) {
    if (deduplicationId === undefined || deduplicationId === null) continue
    throw new InvalidMessageError(
      "publish: a message has a 'deduplicationId', but the outbox was created without the option 'deduplication', so the id " +
        'would be ignored. Set the option, or remove the id. Nothing was written.',
    )
  }
}

/** Some transports do not distinguish headers by case. */
function refuseHeader(headers: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(headers)) {
    if (name.toLowerCase() !== DEDUPLICATION_HEADER) continue
    throw new InvalidMessageError(
      `publish: the header '${oneLine(name)}' is reserved for the deduplication id. Pass the id as 'deduplicationId'. Nothing ` +
        'was written.',
    )
  }
}
