import { LeaseLostError, SettlementError, type BacklogRow, type Lease, type Refusal } from '@txbox/core'

export const SETTLING = 'settling messages'

/** The result for a row that is not accepted. A row that only waits has no error, and is not dead. */
export interface Verdict {
  readonly row: BacklogRow
  readonly attempts: number
  readonly retryInMs: number | undefined
  readonly dead: boolean
  readonly error: string | undefined
  readonly errors: string | undefined
  readonly suspect: boolean
}

export function refused(refusal: Refusal): Verdict {
  return { ...refusal, dead: refusal.retryInMs === undefined }
}

export function waiting({ row, suspect }: { row: BacklogRow; suspect: boolean }): Verdict {
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

/** Writes each character that `pattern` finds as `\u{…}`. The pattern must be global. */
export function escapeCharacters(text: string, pattern: RegExp): string {
  return text.replaceAll(pattern, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
}

/** Finds the characters of a text that a database without Unicode may not be able to hold. */
export const NOT_ASCII = /[^\t\n\r -~]/gu

/** JSON in ASCII with the same meaning. */
export function asciiJson(json: string): string {
  return json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Settles with the texts as they are and, when the database cannot hold them, again with their characters escaped. */
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

/** @throws {SettlementError} when the relay may not do it. */
export async function asPermitted<R>(
  work: () => Promise<R>,
  isDenied: (error: unknown) => boolean,
  advice: string,
): Promise<R> {
  try {
    return await work()
  } catch (error) {
    if (!isDenied(error)) throw error
    throw new SettlementError(
      `${SETTLING}: the database refuses it (${(error as Error).message}). Nothing was changed. ${advice}`,
      { cause: error },
    )
  }
}

export function leaseLost({ name, owner, term }: Lease): LeaseLostError {
  return new LeaseLostError(
    `The lease '${name}' of term ${term} is no longer held by '${owner}': what it published last was not settled and ` +
      'will be published again, with the same ids, by the new owner.',
  )
}

/** @throws {SettlementError} when some rows are still there. `keepers`: what may keep them. `user`: who must delete them. */
export function assertNone(
  remaining: number,
  of: number,
  where: string,
  { keepers, user }: { readonly keepers: string; readonly user: string },
): void {
  if (remaining === 0) return
  throw new SettlementError(
    `${SETTLING}: ${remaining} of ${of} rows that were to go are still ${where}. ${keepers} keeps them; the rest was ` +
      `settled. Let the ${user} of the relay delete rows there.`,
  )
}
