import { isTxboxError, type Finding } from '@txbox/core'

/** A finding on one fact: fine, or `verdict` with advice. */
export function judged(
  check: string,
  found: string,
  bad: false | { readonly verdict: Finding['verdict']; readonly advice: string },
): Finding {
  return bad === false ? { check, verdict: 'ok', found } : { check, found, ...bad }
}

/** A finding on a list of what is wrong, which is empty when all is well. */
export function listed(
  check: string,
  wrong: readonly string[],
  {
    fine,
    ...rest
  }: {
    /** What is found when nothing is wrong. */
    readonly fine: string
    readonly verdict: Finding['verdict']
    readonly advice: string
    /** Stands before the list. */
    readonly prefix?: string
    /** @default ', ' */
    readonly separator?: string
  },
): Finding {
  const { verdict, advice, prefix = '', separator = ', ' } = rest
  if (wrong.length === 0) return { check, verdict: 'ok', found: fine }
  return { check, verdict, found: prefix + wrong.join(separator), advice }
}

/** A finding on the revision of the tables, by the error of a check. `isOther`: an error that says nothing about the tables. */
export async function revisionFinding(
  check: () => Promise<unknown>,
  isOther: (code: string) => boolean,
): Promise<Finding> {
  try {
    await check()
    return { check: 'revision', verdict: 'ok', found: 'the tables are of this revision' }
  } catch (error) {
    if (!isTxboxError(error) || isOther(error.code)) throw error
    const later = error.message.includes('Upgrade the package')
    return {
      check: 'revision',
      verdict: 'problem',
      found: error.message.startsWith('The tables') ? error.message : 'there are no tables of txbox here',
      advice: later ? 'Upgrade txbox.' : "Run 'npx txbox migrate'.",
    }
  }
}
