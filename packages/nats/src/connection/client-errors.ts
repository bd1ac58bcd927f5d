import { propertyOf, reasonOf } from '@txbox/core/internal'
import { secretsOf, type ConnectionSettings } from './connection-options.ts'

const REASON_CHARACTERS = 500
/** A shorter secret would mask parts of ordinary words. */
const MASKED_CHARACTERS = 6
const LEVELS = 4

/** Returns why a request failed, in one line without a period. A password that an error quotes is replaced by `***`. */
export function reasonIn(error: unknown, settings: ConnectionSettings): string {
  let reason = reasonOf(error, REASON_CHARACTERS)
  for (const secret of secretsOf(settings)) {
    if (secret.length >= MASKED_CHARACTERS) reason = reason.replaceAll(secret, '***')
  }
  return reason.replace(/[.\s]+$/, '')
}

/** The server forbids the user to publish to this subject, or to subscribe to it. */
export interface Violation {
  readonly operation: 'publish' | 'subscription'
  readonly subject: string
}

/** @returns undefined if the error is no violation of permissions. */
export function violationIn(error: unknown): Violation | undefined {
  const found = findIn(error, (each) => propertyOf(each, 'name') === 'PermissionViolationError')
  if (found === undefined) return undefined
  const operation = propertyOf(found, 'operation') === 'subscription' ? 'subscription' : 'publish'
  return { operation, subject: String(propertyOf(found, 'subject')) }
}

/** Whether nobody has received a request: nothing listens on its subject. */
export function hasNoResponders(error: unknown): boolean {
  return findIn(error, (each) => propertyOf(each, 'name') === 'NoResponders') !== undefined
}

/** The code of an error of the JetStream API, such as 10059 for an unknown stream. */
export function apiCodeOf(error: unknown): number | undefined {
  const found = findIn(error, (each) => propertyOf(each, 'name') === 'JetStreamApiError' || isNotFound(each))
  const code = propertyOf(found, 'code')
  return typeof code === 'number' ? code : undefined
}

function isNotFound(error: unknown): boolean {
  return ['StreamNotFoundError', 'ConsumerNotFoundError'].includes(String(propertyOf(error, 'name')))
}

/** The first of an error and its causes that is meant. Names identify an error across two copies of the client. */
function findIn(error: unknown, isMeant: (error: unknown) => boolean, levels = LEVELS): unknown {
  if (levels === 0 || error === undefined || error === null) return undefined
  return isMeant(error) ? error : findIn(propertyOf(error, 'cause'), isMeant, levels - 1)
}
