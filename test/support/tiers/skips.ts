import type { TestContext } from 'vitest'

/**
 * The ledger: every reason for which a test may be skipped. With CI=true any other skip makes the run fail.
 */
export const SKIPS = {
  'no-client-program': 'psql or mysql, the client program of the database, is not installed here',
  'no-promtool': "promtool of Debian's package prometheus, the checker of alert rules, is not installed here",
  'connection-lost-at-begin': 'this version of the library leaves its connection taken when BEGIN fails',
  'process-ended': 'this library ends the process when it sends something on a connection that has broken',
  'nothing-deferred': 'this engine checks every constraint at once, so no COMMIT fails for one',
} as const satisfies Record<string, string>

export type SkipReason = keyof typeof SKIPS

/** Skips the running test for a reason of the ledger. */
export function skipBecause(test: Pick<TestContext, 'skip'>, reason: SkipReason): never {
  return test.skip(noteOf(reason))
}

/** The text in the result of the test. */
export function noteOf(reason: SkipReason): string {
  return `${reason}: ${SKIPS[reason]}`
}

/** Whether the ledger allows this note of a skipped test. */
export function isDeclared(note: string | undefined): boolean {
  return (Object.keys(SKIPS) as SkipReason[]).some((reason) => note === noteOf(reason))
}
