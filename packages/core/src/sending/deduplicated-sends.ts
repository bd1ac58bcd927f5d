import type { SendHistory, SendIdentity } from './deduplication.ts'
import {
  NotInTransactionError,
  SchemaError,
  TransactionAbortedError,
  isTxboxError,
  type TxboxErrorCode,
} from '../errors/errors.ts'
import { isFullDisk } from '../errors/full-disk-errors.ts'
import { readOnlyPart } from '../errors/read-only-errors.ts'
import type { Claim, ClaimResult, InboxStore } from '../ports/inbox-store.ts'
import type { Session } from '../ports/session.ts'

/** A message to send, of which only the identity matters here. */
interface Send {
  readonly messageId: string
  readonly identity: SendIdentity
}

export interface SendOutcome {
  /** The id of the message that is stored: for a duplicate, of the first message. */
  readonly id: string
  readonly duplicate: boolean
}

interface SendClaims {
  /** The outcomes in the order of the sends. */
  readonly outcomes: readonly SendOutcome[]
  /** The stored keys of the claims that remember the sends that are no duplicates. */
  readonly keys: readonly string[]
}

const NONE: ReadonlyMap<string, string> = new Map()

/**
 * Decides which sends are duplicates, and claims the others, whose messages the caller must store in the same
 * transaction. Every claim of the sends is made at once and in one order, so that concurrent senders do not deadlock; claims
 * that no send keeps are removed again. Waits for concurrent transactions that send with the same ids.
 *
 * @throws {TransactionConflictError} when the database asks for another attempt; the transaction must roll back. Any other
 *   error leaves no claim behind, so that the sender may catch the error and commit.
 */
export async function claimSends(
  inbox: InboxStore,
  session: Session,
  sends: readonly Send[],
  history: SendHistory & { readonly windowMs: number },
): Promise<SendClaims> {
  const { consumer, windowMs } = history
  // The result of a claim is written with the claim, before it is known which other claims are taken.
  const decided = replay(sends, NONE)
  const keys = new Set(sends.flatMap(({ identity: { key, mustBeFree } }) => [key, mustBeFree ?? key]))
  const claims = [...keys].map((key): Claim => {
    const result = decided.kept.get(key)
    return { consumer, key, correlationId: undefined, retentionMs: windowMs, result }
  })
  const [only] = claims
  const results =
    claims.length === 1 ? [await inbox.claim(session, only!)] : await inbox.claimBatch(session, claims)

  const won = claims.filter((_, index) => results[index]!.status === 'won').map(({ key }) => key)
  try {
    const taken = new Map<string, string>()
    for (const [index, { key }] of claims.entries()) {
      const result = results[index]!
      if (result.status === 'duplicate') taken.set(key, firstMessageOf(result, consumer))
    }
    const { outcomes, kept } = taken.size === 0 ? decided : replay(sends, taken)
    const unneeded = won.filter((key) => !kept.has(key))
    if (unneeded.length > 0) await inbox.removeBatch(session, consumer, unneeded)
    for (const [key, messageId] of kept) {
      if (decided.kept.get(key) === messageId) continue
      await inbox.saveResult(session, { consumer, key }, messageId)
    }
    return { outcomes, keys: [...kept.keys()] }
  } catch (error) {
    throw await afterForgetting(inbox, session, { ...history, keys: won }, error)
  }
}

/** Errors after which the transaction cannot commit, so that its claims are gone without being removed. */
const ENDS_WITHOUT_COMMIT: ReadonlySet<string> = new Set<TxboxErrorCode>([
  'TXBOX_TRANSACTION_ABORTED',
  'TXBOX_TRANSACTION_CONFLICT',
  'TXBOX_DATABASE_UNAVAILABLE',
])

/**
 * Removes the claims of sends whose messages could not be stored. The sender may catch the error and commit: a resend
 * must not be a duplicate of a message that does not exist.
 *
 * @returns the error to throw: `cause`, or one that says that claims may be left behind.
 */
export async function afterForgetting(
  inbox: InboxStore,
  session: Session,
  { where, consumer, keys }: SendHistory & { readonly keys: readonly string[] },
  cause: unknown,
): Promise<unknown> {
  try {
    if (keys.length > 0) await inbox.removeBatch(session, consumer, keys)
    return cause
  } catch (error) {
    // On MySQL and MariaDB, a transaction may still commit after a statement that found the disk full or the server read-only.
    const mayCommit = isFullDisk(error) || readOnlyPart(error) !== undefined
    if (isTxboxError(error) && ENDS_WITHOUT_COMMIT.has(error.code) && !mayCommit) return cause
    if (isTxboxError(error) && error.code === 'TXBOX_NOT_IN_TRANSACTION') {
      return new NotInTransactionError(
        `The transaction ended while ${where} was in flight, and no message was stored. If the transaction committed, the ` +
          'deduplication ids are remembered all the same, and a resend within the window is reported as a duplicate. Await ' +
          `${where} before the transaction commits.`,
        { cause },
      )
    }
    return new TransactionAbortedError(
      'No message was stored, and the deduplication ids of the messages could not be removed. Roll back; after a commit, a ' +
        'resend within the window would be reported as a duplicate.',
      { cause: error },
    )
  }
}

/** Decides the sends one after another. `taken` maps the key of a live claim to the id of its message. */
function replay(
  sends: readonly Send[],
  taken: ReadonlyMap<string, string>,
): { readonly outcomes: readonly SendOutcome[]; readonly kept: ReadonlyMap<string, string> } {
  const kept = new Map<string, string>()
  const firstOf = (key: string | undefined): string | undefined =>
    key === undefined ? undefined : (taken.get(key) ?? kept.get(key))
  const outcomes = sends.map(({ messageId, identity: { key, mustBeFree } }): SendOutcome => {
    const first = firstOf(key) ?? firstOf(mustBeFree)
    if (first !== undefined) return { id: first, duplicate: true }
    kept.set(key, messageId)
    return { id: messageId, duplicate: false }
  })
  return { outcomes, kept }
}

function firstMessageOf({ result }: Extract<ClaimResult, { status: 'duplicate' }>, consumer: string): string {
  if (result !== undefined) return result
  throw new SchemaError(
    `The inbox table has a claim of the consumer '${consumer}' without a message id, so it was not written by txbox. ` +
      `Delete the claims of '${consumer}' whose result is null.`,
  )
}
