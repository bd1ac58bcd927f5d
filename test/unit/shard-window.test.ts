import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { WindowRow } from '../../packages/consumer/src/local/key-lane.ts'
import { WindowWorld, type WindowCommand } from '../support/subjects/window-world.ts'

const which = fc.nat(7)
const kinds = (...all: WindowCommand['kind'][]): fc.Arbitrary<WindowCommand['kind']> =>
  fc.constantFrom(...all)
const take = fc.record({
  kind: kinds('take'),
  count: fc.integer({ min: 1, max: 6 }),
  isHeldBack: fc.nat(9).map((n) => n === 0),
})
const end = fc.record({
  kind: kinds(
    'done',
    'done',
    'fail',
    'fail',
    'skip',
    'vanish',
    'back',
    'backLater',
    ...Array(6).fill('work'),
  ),
  which,
})
const publish = fc.record({
  kind: kinds('publish'),
  // The last keys are none.
  key: fc.constantFrom(0, 0, 0, 0, 1, 2),
  count: fc.integer({ min: 1, max: 6 }),
  bytes: fc.oneof({ weight: 9, arbitrary: fc.nat(3) }, { weight: 1, arbitrary: fc.constant(50) }),
  isOpen: fc.nat(5).map((n) => n === 0),
})
const event = fc.oneof(
  { weight: 3, arbitrary: publish },
  { weight: 8, arbitrary: end },
  { weight: 1, arbitrary: fc.record({ kind: kinds('commit'), which }) },
  { weight: 4, arbitrary: take },
  { weight: 1, arbitrary: fc.record({ kind: kinds('advance'), ms: fc.integer({ min: 1, max: 400 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: kinds('read', 'answer') }) },
)
const commands = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: event },
    // What happens while a read is in flight is what goes wrong.
    { weight: 3, arbitrary: fc.record({ kind: kinds('during'), events: fc.array(event, { maxLength: 6 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: kinds('forget') }) },
  ) as fc.Arbitrary<WindowCommand>,
  { maxLength: 80, size: 'max' },
)

for (const runLength of [1, 3]) {
  test(`L2 L4 L7 a window in any order of events: rows of a key in order, runs of ${runLength}, nothing lost or handed out after its end`, () => {
    fc.assert(
      fc.property(commands, (all) => {
        const world = new WindowWorld(runLength)
        for (const command of all) world.run(command)
        world.drain()
        expect(world.table.size).toBe(0)
      }),
      { numRuns: 1500 },
    )
  })
}

test('L2 a key with many rows whose handler hangs does not hide the rows behind it, and goes on afterwards', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 20, max: 200 }),
      fc.integer({ min: 1, max: 60 }),
      fc.nat(20),
      (hot, others, first) => {
        const world = new WindowWorld(1)
        const isHot = ({ lane }: WindowRow): boolean => lane.key === 'hot'
        for (let n = 0; n < first; n++) world.table.publish(`other ${n}`, 1, false)
        for (let n = 0; n < hot; n++) world.table.publish('hot', 1, false)
        for (let n = 0; n < others; n++)
          world.table.publish(n % 3 === 0 ? undefined : `other ${n % 5}`, 1, false)
        world.found()
        world.drain(isHot)
        expect(world.table.size).toBe(hot)
        expect(world.out.filter(isHot)).toHaveLength(1)
        world.drain()
        expect(world.table.size).toBe(0)
      },
    ),
    { numRuns: 40 },
  )
})
