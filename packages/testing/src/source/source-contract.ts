import assert from 'node:assert/strict'
import type { ContractCase } from '../cases/contract-case.ts'
import { CONNECTIONS } from './connection-cases.ts'
import { DELIVERIES } from './delivery-cases.ts'
import { SETTLEMENTS } from './settlement-cases.ts'
import { caseOf, type SourceDraft } from './source-case.ts'
import type { SourceContractOptions, SourceUnderTest } from './source-under-test.ts'

const TRAITS: SourceDraft = {
  rule: 'T1',
  says: 'the source declares the traits of its contract',
  check: async ({ subject, traits }) => {
    assert.deepEqual({ ...subject.source.traits }, { ...traits })
    assert.ok(subject.source.name.length > 0, 'the source has no name')
  },
}

/**
 * Returns the rules for every source as cases for any test runner, so that a consumer loses nothing and settles each delivery once:
 * `for (const each of sourceContract(options, open)) test(each.name, each.run)`. Cases assert with `node:assert`. A case whose subject lacks
 * an optional member that the rule is about is left out by name: it is reported as skipped.
 *
 * @param open makes a source with an empty queue of its own, once for each case. The case closes whatever it has opened, also when it
 *   fails; `close` of an open source may be called twice.
 */
export function sourceContract(
  options: SourceContractOptions,
  open: () => Promise<SourceUnderTest>,
): readonly ContractCase[] {
  return [TRAITS, ...DELIVERIES, ...SETTLEMENTS, ...CONNECTIONS]
    .filter(({ appliesTo }) => appliesTo?.(options) ?? true)
    .map((draft) => caseOf(draft, options, open))
}
