import { expect, test } from 'vitest'
import { FAULT_NAMES, type FaultName } from '../../chaos/faults/fault-names.ts'
import { stepAt } from '../../chaos/faults/schedule.ts'

const NUMBERS = Array.from({ length: 400 }, (_, n) => n + 1)

function namesOf(seed: number, number: number, without?: ReadonlySet<FaultName>): readonly FaultName[] {
  return stepAt(seed, number, FAULT_NAMES, without).faults.map(({ name }) => name)
}

test('the same seed gives the same steps, with the same parameters', () => {
  for (const number of NUMBERS) {
    const [once, again] = [stepAt(7, number, FAULT_NAMES), stepAt(7, number, FAULT_NAMES)]
    expect(again.faults.map(({ name, draw }) => [name, draw.next()])).toEqual(
      once.faults.map(({ name, draw }) => [name, draw.next()]),
    )
  }
})

test('another seed gives other steps', () => {
  const steps = (seed: number): string => JSON.stringify(NUMBERS.map((number) => namesOf(seed, number)))
  expect(steps(1)).not.toBe(steps(2))
})

test('every kind of fault is drawn', () => {
  expect(new Set(NUMBERS.flatMap((number) => namesOf(1, number)))).toEqual(new Set(FAULT_NAMES))
})

test('a kind that is left out leaves the other faults as they are', () => {
  const without = new Set<FaultName>(['kill'])
  for (const number of NUMBERS) {
    expect(namesOf(1, number, without)).toEqual(namesOf(1, number).filter((name) => name !== 'kill'))
    const [all, fewer] = [stepAt(1, number, FAULT_NAMES), stepAt(1, number, FAULT_NAMES, without)]
    for (const { name, draw } of fewer.faults) {
      expect(draw.next()).toBe(all.faults.find((fault) => fault.name === name)!.draw.next())
    }
  }
})
