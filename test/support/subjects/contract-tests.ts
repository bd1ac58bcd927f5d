import type { ContractCase, NetworkUnderTest } from '@txbox/testing'
import { test } from 'vitest'
import type { UnreliableNetwork } from '../worlds/unreliable-network.ts'

/**
 * Registers the cases of a contract as tests.
 *
 * @param without the rules that the subject cannot show, each with the reason. Any other case that is left out fails.
 */
export function testContract(
  cases: readonly ContractCase[],
  { without = {}, suffix = '' }: { without?: Readonly<Record<string, string>>; suffix?: string } = {},
): void {
  const unknown = Object.keys(without).filter((rule) => !cases.some((each) => each.rule === rule))
  if (unknown.length > 0) throw new Error(`The contract has no ${unknown.join(', ')}.`)
  for (const { rule, name, run } of cases) {
    if (Object.hasOwn(without, rule)) continue
    test(`${name}${suffix}`, () =>
      run({
        skip: (reason) => {
          throw new Error(`${name} is left out without a reason of the test's. ${reason}`)
        },
      }))
  }
}

/** @param back waits until the publisher can reach the broker again. */
export function networkUnderTest(network: UnreliableNetwork, back?: () => Promise<void>): NetworkUnderTest {
  return {
    cut: () => network.cut(),
    down: () => network.down(),
    up: async () => {
      network.thaw()
      await network.up()
      await back?.()
    },
    freeze: () => network.freeze(),
  }
}
