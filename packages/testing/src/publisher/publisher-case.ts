import { leaveOut, reasonWithout, runAll, type ContractCase } from '../cases/contract-case.ts'
import type { PublisherContractOptions, PublisherUnderTest } from './publisher-under-test.ts'

/** An optional member of a subject, as a path. */
type Member =
  | Exclude<keyof PublisherUnderTest, 'publisher' | 'goodTopic' | 'badTopic' | 'arrived' | 'close'>
  | 'network.freeze'
  | 'publisher.close'

/** A case before it has a subject. */
export interface Draft {
  readonly rule: string
  readonly says: string
  /** The members without which the rule says nothing about a subject. */
  readonly needs?: readonly Member[]
  /** Whether the rule says anything about a publisher with these options. @default always */
  readonly appliesTo?: (options: PublisherContractOptions) => boolean
  readonly check: (subject: PublisherUnderTest, options: PublisherContractOptions) => Promise<void>
}

/** The case, which opens a subject of its own and closes all that it has, whatever fails. */
export function caseOf(
  { rule, says, needs = [], check }: Draft,
  options: PublisherContractOptions,
  open: () => Promise<PublisherUnderTest>,
): ContractCase {
  const name = `${rule} ${says}`
  return {
    rule,
    name,
    // A function with parameters would be one with a callback, for some runners.
    run: async (...[context]) => {
      const subject = await open()
      const reason = reasonWithout(subject, needs)
      await runAll([
        () => (reason === undefined ? check(subject, options) : undefined),
        () => subject.publisher.close?.(),
        () => subject.refused?.publisher.close?.(),
        () => subject.unresolved?.close?.(),
        () => subject.close?.(),
      ])
      if (reason !== undefined) leaveOut(context, name, reason)
    },
  }
}
