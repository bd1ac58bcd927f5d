import { LeaseLostError, SettlementError } from '@txbox/core'
import type { BacklogRow, Lease, Refusal } from '@txbox/core/ports'

export const SETTLING = 'settling messages'

/** What a settlement stores for a row that was not accepted. A row that only waits has no error, and is not dead. */
export interface UnacceptedRow {
  readonly row: BacklogRow
  readonly attempts: number
  readonly retryInMs: number | undefined
  readonly dead: boolean
  readonly error: string | undefined
  readonly errors: string | undefined
  readonly suspect: boolean
}

export function refused(refusal: Refusal): UnacceptedRow {
  return { ...refusal, dead: refusal.retryInMs === undefined }
}

export function waiting({ row, suspect }: { row: BacklogRow; suspect: boolean }): UnacceptedRow {
  return {
    row,
    attempts: 0,
    retryInMs: undefined,
    dead: false,
    error: undefined,
    errors: undefined,
    suspect,
  }
}

/** Replaces each character that `pattern` matches by `\u{…}`. The pattern must be global. */
export function escapeCharacters(text: string, pattern: RegExp): string {
  return text.replaceAll(pattern, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
}

/** Matches the characters that a database without Unicode may not be able to store. */
export const NOT_ASCII = /[^\t\n\r -~]/gu

export function asciiJson(json: string): string {
  return json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Settles with the unchanged texts. If the database cannot store them, settles again with escaped characters. */
export async function withStorableTexts<R>(
  settle: (ascii: boolean) => Promise<R>,
  isUntranslatable: (error: unknown) => boolean,
): Promise<R> {
  try {
    return await settle(false)
  } catch (error) {
    if (!isUntranslatable(error)) throw error
    return settle(true)
  }
}

/** Returns the error of a settlement for which the relay lacks a privilege. */
export function deniedSettlement(error: unknown, advice: string): SettlementError {
  return new SettlementError(
    `${SETTLING}: the database refuses it (${(error as Error).message}). Nothing was changed. ${advice}`,
    { cause: error },
  )
}

export function leaseLost({ name, owner, term }: Lease): LeaseLostError {
  return new LeaseLostError(
    `The lease '${name}' of term ${term} is no longer held by '${owner}': the messages of its last batch were not settled and ` +
      'will be published again, with the same ids, by the new owner.',
  )
}

/**
 * @param keepers names what may prevent the deletion; `user` names who must be able to delete the rows.
 * @throws {SettlementError} when some rows still exist.
 */
export function assertNone(
  remaining: number,
  of: number,
  where: string,
  { keepers, user }: { readonly keepers: string; readonly user: string },
): void {
  if (remaining === 0) return
  throw new SettlementError(
    `${SETTLING}: ${remaining} of ${of} rows were not deleted and are still ${where}. ${keepers} keeps them; the rest was ` +
      `settled. Let the ${user} of the relay delete rows there.`,
  )
}
