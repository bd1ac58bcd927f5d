import assert from 'node:assert/strict'
import { propertyOf } from '@txbox/core/internal'
import { AWAY } from './away-cases.ts'
import type { ContractCase } from '../cases/contract-case.ts'
import { caseOf } from './publisher-case.ts'
import { FIELDS } from './fields-cases.ts'
import { ORDER } from './order-cases.ts'
import type { PublisherContractOptions, PublisherUnderTest } from './publisher-under-test.ts'
import { RESULTS } from './results-cases.ts'
import { STOP } from './stop-cases.ts'
import { VERDICTS } from './verdict-cases.ts'

/**
 * Returns the rules for every publisher as cases for any test runner, so that a relay loses nothing and keeps the order of each key:
 * `for (const each of publisherContract(options, open)) test(each.name, each.run)`. Cases assert with `node:assert`. A case whose subject
 * lacks an optional member that the rule is about is left out by name: it is reported as skipped.
 *
 * @param open makes a publisher and the receiving side of its destination, once for each case. The case closes all of them, also when it
 *   fails.
 */
export function publisherContract(
  options: PublisherContractOptions,
  open: () => Promise<PublisherUnderTest>,
): readonly ContractCase[] {
  const cases = [...RESULTS, ...FIELDS, ...ORDER, ...VERDICTS, ...AWAY, ...STOP]
    .filter(({ appliesTo }) => appliesTo?.(options) ?? true)
    .map((draft) => caseOf(draft, options, open))
  const wrong = Object.entries(options.wrongOptions ?? {}).map(([name, make]) => ({
    rule: 'U1',
    name: `U1 ${name} is an InvalidOptionError`,
    run: async () => refusesOptions(make),
  }))
  return [...cases, ...wrong]
}

/** Asserts that wrong options are refused at once, and without I/O. */
function refusesOptions(make: () => unknown): void {
  const before = process.getActiveResourcesInfo().length
  assert.throws(make, (error) => propertyOf(error, 'code') === 'TXBOX_INVALID_OPTION')
  assert.ok(
    process.getActiveResourcesInfo().length <= before,
    'options that are refused have opened something',
  )
}
