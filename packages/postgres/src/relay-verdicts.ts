import type { BacklogRow, Refusal } from '@txbox/core'
import { textArray, textStamps } from './integer-arrays.ts'

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

/** Numbers and stamps, as two arrays. */
export function rowsOf(rows: readonly BacklogRow[]): [numbers: string, stamps: string] {
  return [textArray(rows.map(({ seq }) => seq)), textStamps(rows.map(({ stamp }) => stamp))]
}

/** As the eight arrays that `verdicts` of the statements reads. `ascii`: the database can hold no other characters. */
export function columnsOf(verdicts: readonly Verdict[], ascii: boolean): readonly unknown[] {
  return [
    ...rowsOf(verdicts.map(({ row }) => row)),
    verdicts.map(({ attempts }) => attempts),
    verdicts.map(({ retryInMs }) => retryInMs ?? null),
    verdicts.map(({ dead }) => dead),
    verdicts.map(({ error }) => (error === undefined ? null : storable(error, ascii))),
    verdicts.map(({ errors }) => (errors === undefined ? null : storableJson(errors, ascii))),
    verdicts.map(({ suspect }) => suspect),
  ]
}

/** Characters of an encoding that the database cannot hold, and NUL, which no text of PostgreSQL holds. */
function storable(text: string, ascii: boolean): string {
  const pattern = ascii ? /[^\t\n\r -~]/gu : /\0/g
  return text.replaceAll(pattern, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
}

/** JSON escapes NUL by itself. */
function storableJson(json: string, ascii: boolean): string {
  if (!ascii) return json
  return json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
