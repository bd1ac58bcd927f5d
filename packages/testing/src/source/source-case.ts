import { runAll, type ContractCase } from '../cases/contract-case.ts'
import { SourceTrial } from './source-trial.ts'
import type { SourceContractOptions, SourceOffer, SourceUnderTest } from './source-under-test.ts'

/** A case before it has a subject. */
export interface SourceDraft {
  readonly rule: string
  readonly says: string
  readonly needs?: readonly SourceOffer[]
  /** Whether the rule says anything about a source with these options. @default always */
  readonly appliesTo?: (options: SourceContractOptions) => boolean
  readonly check: (trial: SourceTrial) => Promise<void>
}

/** The case, which opens a subject of its own and closes all that it has, whatever fails. */
export function caseOf(
  { rule, says, check }: SourceDraft,
  options: SourceContractOptions,
  open: () => Promise<SourceUnderTest>,
): ContractCase {
  return {
    rule,
    name: `${rule} ${says}`,
    run: async () => {
      const subject = await open()
      const trial = new SourceTrial(subject, options)
      await runAll([() => check(trial), () => runAll(trial.closings), () => subject.close?.()])
    },
  }
}
