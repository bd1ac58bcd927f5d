/** One case of a contract, for any test runner: `for (const each of cases) test(each.name, each.run)`. */
export interface ContractCase {
  /** The rule and what it says, as the title of a test. */
  readonly name: string
  /** The code of the rule, such as `P3`. */
  readonly rule: string
  /** Rejects with an `AssertionError` of `node:assert` if the subject breaks the rule. */
  readonly run: () => Promise<void>
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
