import { causeOf, withCause } from './causes-of-messages.ts'
import { DeduplicatedMessages, refuseDeduplicationIds } from './deduplicated-messages.ts'
import { deduplicationRules, type DeduplicationOptions, type SendHistory } from './deduplication.ts'
import { encodeMessages, type SendingCall } from './encode-messages.ts'
import { creating, tracedMessages } from './traced-messages.ts'
import { diagnose, diagnosed } from '../events/diagnostics.ts'
import type { NewMessage } from '../messages/messages.ts'
import type { StoredId } from '../messages/stored-id.ts'
import type { DatabasePorts } from '../ports/database-ports.ts'
import type { MessageToStore } from '../ports/outbox-store.ts'
import type { Session } from '../ports/session.ts'
import type { FindTelemetry } from '../telemetry/telemetry-option.ts'

/** A message without the fields that only some senders have. */
type Sendable = Pick<NewMessage, 'deduplicationId'>

/** Stores one message or several in the transaction `tx`: what `publish` of an outbox and `send` of a queue do. */
type Sender = (tx: object, message: Sendable | readonly Sendable[]) => Promise<StoredId | readonly StoredId[]>

interface SenderOptions {
  readonly ports: DatabasePorts
  readonly call: SendingCall & SendHistory
  readonly deduplication: DeduplicationOptions | undefined
  /** Refuses messages before anything is written. */
  readonly check?: ((messages: readonly MessageToStore[]) => void) | undefined
  readonly telemetry: FindTelemetry
  readonly append: (session: Session, messages: readonly MessageToStore[]) => Promise<void>
}

/** @throws {InvalidOptionError} for a wrong `deduplication`. */
export function createSender(
  where: string,
  { ports, call, deduplication, check, telemetry: findTelemetry, append }: SenderOptions,
): Sender {
  const deduplicated =
    deduplication === undefined
      ? undefined
      : new DeduplicatedMessages(ports.inbox, deduplicationRules(where, deduplication), call)

  const store = async (
    tx: object,
    messages: readonly Sendable[],
    stored: readonly MessageToStore[],
  ): Promise<readonly StoredId[]> => {
    const identified = deduplicated?.identify(messages, stored)
    if (identified === undefined) refuseDeduplicationIds(call, messages)
    const session = await ports.bind(tx)
    let ids: readonly StoredId[] = stored.map(({ id }) => ({ id, duplicate: false }))
    if (identified !== undefined) ids = await deduplicated!.store(session, identified, append)
    else if (stored.length > 0) await append(session, stored)
    return ids
  }

  return async (tx, message) => {
    const messages: readonly Sendable[] = Array.isArray(message) ? message : [message as Sendable]
    const encoded = encodeMessages(call, messages)
    const cause = causeOf(tx)
    const caused = cause === undefined ? encoded : encoded.map((each) => withCause(each, cause))
    check?.(caused)
    const telemetry = findTelemetry()
    const ids =
      telemetry === undefined || caused.length === 0
        ? await store(tx, messages, tracedMessages(caused, undefined))
        : await telemetry.span(creating(call, caused), () =>
            store(tx, messages, tracedMessages(caused, telemetry)),
          )
    cause?.stored?.()
    if (ids.length > 0) diagnoseStored(call, caused, ids)
    return Array.isArray(message) ? ids : ids[0]!
  }
}

function diagnoseStored(
  { where }: SendingCall,
  messages: readonly MessageToStore[],
  ids: readonly StoredId[],
): void {
  diagnose('publish', () => ({
    by: where,
    messages: ids.map(({ id, duplicate }, n) => {
      const { topic, type } = messages[n]!
      return Object.assign(diagnosed({ id, topic, type }), { duplicate })
    }),
  }))
}
