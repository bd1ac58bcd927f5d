import type { PublisherContractOptions, PublisherOffer, PublisherUnderTest } from './publisher-under-test.ts'

/** One case of the contract, for any test runner: `for (const each of cases) test(each.name, each.run)`. */
export interface ContractCase {
  /** The rule and what it says, as the title of a test. */
  readonly name: string
  /** The code of the rule, such as `P3`. */
  readonly rule: string
  /** Rejects with an `AssertionError` of `node:assert` if the publisher breaks the rule. */
  readonly run: () => Promise<void>
}

/** A case before it has a subject. */
export interface Draft {
  readonly rule: string
  readonly says: string
  readonly needs?: readonly PublisherOffer[]
  /** Whether the rule says anything about a publisher with these options. @default always */
  readonly appliesTo?: (options: PublisherContractOptions) => boolean
  readonly check: (subject: PublisherUnderTest, options: PublisherContractOptions) => Promise<void>
}

/** The case, which opens a subject of its own and closes all that it has, whatever fails. */
export function caseOf(
  { rule, says, check }: Draft,
  options: PublisherContractOptions,
  open: () => Promise<PublisherUnderTest>,
): ContractCase {
  return {
    rule,
    name: `${rule} ${says}`,
    run: async () => {
      const subject = await open()
      const failures: unknown[] = []
      const steps = [
        () => check(subject, options),
        () => subject.publisher.close?.(),
        () => subject.refused?.publisher.close?.(),
        () => subject.unresolved?.close?.(),
        () => subject.close?.(),
      ]
      for (const step of steps) {
        try {
          await step()
        } catch (error) {
          failures.push(error)
        }
      }
      // The first one: an error of closing must not hide the rule that was broken before.
      if (failures.length > 0) throw failures[0]
    },
  }
}
