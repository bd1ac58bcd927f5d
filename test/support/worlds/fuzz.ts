import * as fc from 'fast-check'
import { afterAll, expect, inject, test } from 'vitest'
import { made } from './hostile-values.ts'
import '../engines/provided.ts'

/** The maximum time of one case: far more than any case needs, even on a busy machine. */
const CASE_MS = 20_000

/** The state of each test file: the files share this module, because they are not isolated. */
const ran = new Map<string, number>()
/** The first case that took too long: the cases after it, in search of a smaller one, are not run. */
let late: Error | undefined

/**
 * A property as a test. Each run of the suite uses a new seed, which is printed; `npm run fuzz -- --seed S` replays
 * it, and `--long` runs many more cases.
 *
 * Besides what the property expects, every case must end in time, and must leave the prototypes of the language as
 * they were. An unhandled rejection or an exception outside of a case fails the run, as in any test.
 *
 * @param cases the number of cases of a short run.
 */
export function fuzz<T>(
  name: string,
  cases: number,
  value: fc.Arbitrary<T>,
  property: (value: T) => unknown,
): void {
  const { seed, factor } = inject('fuzz')
  const file = countAtEnd(seed)
  const numRuns = Math.ceil(cases * factor)
  test(name, { timeout: 60_000 + 500 * numRuns }, async () => {
    const before = prototypes()
    const checked = fc.asyncProperty(value, async (given) => {
      ran.set(file, ran.get(file)! + 1)
      if (late !== undefined) throw late
      await inTime(property(made(given)), () => fc.stringify(given))
      expectUnchanged(before)
    })
    await fc.assert(checked, { seed, numRuns, endOnFailure: factor > 1 })
  })
}

/** Rejects if the case takes too long. A case without a promise costs no timer. */
async function inTime(outcome: unknown, described: () => string): Promise<void> {
  if (!(outcome instanceof Promise)) return
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      late = new Error(`The case takes longer than ${CASE_MS} ms: ${described().slice(0, 2000)}`)
      reject(late)
    }, CASE_MS)
  })
  try {
    await Promise.race([outcome, over])
  } finally {
    clearTimeout(timer)
  }
}

const OWNERS = [Object.prototype, Array.prototype, Function.prototype, String.prototype, Error.prototype]

function prototypes(): readonly PropertyKey[][] {
  return OWNERS.map((owner) => Reflect.ownKeys(owner))
}

function expectUnchanged(before: readonly PropertyKey[][]): void {
  for (const [index, owner] of OWNERS.entries()) {
    if (Reflect.ownKeys(owner).length !== before[index]!.length)
      expect(Reflect.ownKeys(owner), 'a prototype of the language was changed').toEqual(before[index])
  }
}

/** @returns the test file that is being collected. */
function countAtEnd(seed: number): string {
  const path = expect.getState().testPath ?? ''
  if (ran.has(path)) return path
  ran.set(path, 0)
  afterAll(() => {
    const name = path.split('/').at(-1)
    console.log(`fuzz: ${ran.get(path)} cases in ${name}; replay with: npm run fuzz -- --seed ${seed}`)
    // Another project may run the same file.
    ran.delete(path)
  })
  return path
}
