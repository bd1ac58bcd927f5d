import { leaveOut, reasonWithout, runAll, type ContractCase } from '../cases/contract-case.ts'
import { SourceTrial } from './source-trial.ts'
import type { SourceContractOptions, SourceUnderTest } from './source-under-test.ts'

/** An optional member of a subject, as a path. */
type Member = 'network' | 'network.down' | 'network.up' | 'begin'

/** A case before it has a subject. */
export interface SourceDraft {
  readonly rule: string
  readonly says: string
  /** The members without which the rule says nothing about a subject. */
  readonly needs?: readonly Member[]
  /** Whether the rule says anything about a source with these options. @default always */
  readonly appliesTo?: (options: SourceContractOptions) => boolean
  /** Why a source with these options is not tested, although the rule says something about it. */
  readonly leftOut?: (options: SourceContractOptions) => string | undefined
  readonly check: (trial: SourceTrial) => Promise<void>
}

/** The case, which opens a subject of its own and closes all that it has, whatever fails. */
export function caseOf(
  { rule, says, needs = [], leftOut, check }: SourceDraft,
  options: SourceContractOptions,
  open: () => Promise<SourceUnderTest>,
): ContractCase {
  const name = `${rule} ${says}`
  return {
    rule,
    name,
    // A function with parameters would be one with a callback, for some runners.
    run: async (...[context]) => {
      const subject = await open()
      const trial = new SourceTrial(subject, options)
      const reason = leftOut?.(options) ?? reasonWithout(subject, needs)
      await runAll([
        () => (reason === undefined ? check(trial) : undefined),
        () => runAll(trial.closings),
        () => subject.close?.(),
      ])
      if (reason !== undefined) leaveOut(context, name, reason)
    },
  }
}
