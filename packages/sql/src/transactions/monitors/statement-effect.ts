/** The effect of a statement on its transaction, as far as its text shows. */
export type Effect =
  | 'begins'
  | 'begins, and more'
  | 'commits'
  | 'rolls back'
  | 'sets a savepoint'
  | 'rolls back to a savepoint'
  | 'none'
  | 'unknown'

/**
 * Matches the text before the first word, including comments. MySQL executes comments that begin with an exclamation
 * mark.
 */
const LEADING = String.raw`^(?:[\s(]|/\*M?!\d*|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/|--[^\n]*\n|#[^\n]*\n)*`
const ROLLBACK_TO = String.raw`rollback\s+(?:work\s+|transaction\s+)?to`

/**
 * Statements that do not end a transaction when they succeed. Any other statement may: on MySQL, every DDL statement
 * does.
 */
const HARMLESS = startsWith('select|insert|update|delete|replace|with|values|release')
const SETS_SAVEPOINT = startsWith('savepoint')
const ROLLS_BACK_TO_SAVEPOINT = startsWith(ROLLBACK_TO)
const BEGINS = startsWith(String.raw`begin|start\s+transaction`)
const COMMITS = startsWith(String.raw`commit|end|prepare\s+transaction`)
/** Rolling back to a savepoint does not end the transaction. */
const ROLLS_BACK = startsWith(String.raw`abort|(?!${ROLLBACK_TO})rollback`)
/** Matches several statements in one text. A semicolon inside a value matches too, which only costs one more query. */
const SEVERAL = /;\s*\S/

function startsWith(words: string): RegExp {
  return new RegExp(String.raw`${LEADING}(?:${words})\b`, 'i')
}

/**
 * The effects of texts that the drivers themselves send: a lookup avoids parsing two statements of every transaction.
 */
const KNOWN: ReadonlyMap<string, Effect> = new Map([
  ...['START TRANSACTION', 'BEGIN', 'begin'].map((sql): [string, Effect] => [sql, 'begins']),
  ...['COMMIT', 'commit'].map((sql): [string, Effect] => [sql, 'commits']),
  ...['ROLLBACK', 'rollback'].map((sql): [string, Effect] => [sql, 'rolls back']),
])
const KNOWN_LENGTH = Math.max(...[...KNOWN.keys()].map((sql) => sql.length))

export function endsTransaction(effect: Effect): effect is 'commits' | 'rolls back' {
  return effect === 'commits' || effect === 'rolls back'
}

/** @param several whether the connection can run several statements of one text. */
export function effectOf(sql: string, several: boolean): Effect {
  const known = sql.length <= KNOWN_LENGTH ? KNOWN.get(sql) : undefined
  if (known !== undefined) return known
  if (HARMLESS.test(sql)) return harmless(sql, several, 'none')
  if (SETS_SAVEPOINT.test(sql)) return harmless(sql, several, 'sets a savepoint')
  if (ROLLS_BACK_TO_SAVEPOINT.test(sql)) return harmless(sql, several, 'rolls back to a savepoint')
  if (BEGINS.test(sql)) return several && SEVERAL.test(sql) ? 'begins, and more' : 'begins'
  if (ROLLS_BACK.test(sql)) return 'rolls back'
  return COMMITS.test(sql) ? 'commits' : 'unknown'
}

function harmless(sql: string, several: boolean, effect: Effect): Effect {
  return several && SEVERAL.test(sql) ? 'unknown' : effect
}
