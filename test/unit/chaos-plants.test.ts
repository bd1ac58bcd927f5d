import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { PLANTS } from '../../chaos/plants/plants.ts'
import { builtFile, replaced } from '../../chaos/plants/planted-copy.ts'

const PACKAGES = path.join(import.meta.dirname, '..', '..', 'packages')

for (const plant of PLANTS) {
  for (const replacement of plant.replacements) {
    test(`the plant ${plant.name} finds its place in ${replacement.package}/${replacement.file}`, () => {
      const text = readFileSync(builtFile(PACKAGES, plant, replacement), 'utf8')
      expect(replaced(plant, replacement, text)).not.toBe(text)
    })
  }
}

test('a plant whose text is missing, or occurs twice, fails with an error', () => {
  const [plant] = PLANTS
  const replacement = { package: 'relay', file: 'flight.js', find: 'two', replace: 'three' } as const
  expect(() => replaced(plant!, replacement, 'one')).toThrow('0 times, not once')
  expect(() => replaced(plant!, replacement, 'two and two')).toThrow('2 times, not once')
})

test('each plant has a bug, and faults that reveal it', () => {
  for (const { replacements, worker, faults } of PLANTS) {
    expect(replacements.length > 0 || worker !== undefined).toBe(true)
    expect(faults.length).toBeGreaterThan(0)
  }
})
