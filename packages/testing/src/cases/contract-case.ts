import { propertyOf } from '@txbox/core/internal'

/** The context that a test runner, such as `node:test` or Vitest, passes to a test. */
export interface CaseContext {
  /** Reports the test as skipped. */
  skip?(reason: string): unknown
}

/** One case of a contract, for any test runner: `for (const each of cases) test(each.name, each.run)`. */
export interface ContractCase {
  /** The rule and what it says, as the title of a test. */
  readonly name: string
  /** The code of the rule, such as `P3`. */
  readonly rule: string
  /**
   * Rejects with an `AssertionError` of `node:assert` if the subject breaks the rule. A case whose subject lacks what the rule is about is
   * left out: it calls `skip` of the runner's context with the reason, or without a context emits a warning of the process.
   */
  readonly run: (context?: CaseContext) => Promise<void>
}

/** @returns why a case that needs these members, as paths, says nothing about the subject; `undefined`: the subject has all of them */
export function reasonWithout(subject: object, needs: readonly string[]): string | undefined {
  const missing = needs.filter((path) => path.split('.').reduce<unknown>(propertyOf, subject) === undefined)
  return missing.length === 0 ? undefined : `The subject has no '${missing.join("', no '")}'.`
}

/** Reports a case that is left out. */
export function leaveOut(context: CaseContext | undefined, name: string, reason: string): void {
  if (typeof context?.skip === 'function') context.skip(reason)
  else process.emitWarning(`Left out: ${name}. ${reason}`, 'TxboxWarning')
}

/** Runs all steps, also after one has failed, and throws the first error: an error of closing must not hide the broken rule. */
export async function runAll(steps: readonly (() => unknown)[]): Promise<void> {
  const failures: unknown[] = []
  for (const step of steps) {
    try {
      await step()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}
