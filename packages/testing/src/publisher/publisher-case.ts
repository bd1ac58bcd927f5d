import { runAll, type ContractCase } from '../cases/contract-case.ts'
import type { PublisherContractOptions, PublisherOffer, PublisherUnderTest } from './publisher-under-test.ts'

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
      await runAll([
        () => check(subject, options),
        () => subject.publisher.close?.(),
        () => subject.refused?.publisher.close?.(),
        () => subject.unresolved?.close?.(),
        () => subject.close?.(),
      ])
    },
  }
}
