import { expect, test } from 'vitest'
import { KeyLane } from '../../packages/consumer/src/local/key-lane.ts'
import { Takeovers } from '../../packages/consumer/src/local/takeovers.ts'

/** Answers about keys when the test says so. */
function takeovers(endsInMs = 60_000) {
  const asked: { readonly key: string; readonly answer: PromiseWithResolvers<boolean> }[] = []
  const resumed: KeyLane[] = []
  const errors: unknown[] = []
  const over = new AbortController()
  const gate = new Takeovers(performance.now() + endsInMs, {
    isKeyUnlocked(key) {
      const answer = Promise.withResolvers<boolean>()
      asked.push({ key, answer })
      return answer.promise
    },
    resume: (lane) => void resumed.push(lane),
    failed: (error) => void errors.push(error),
    over: over.signal,
  })
  return { gate, asked, resumed, errors, over }
}

const lane = (key: string | undefined): KeyLane => new KeyLane(`k${key}`, key)

test('L4 after a take-over, the first message of a key begins after none of its rows was locked once, and the key is asked about once', async () => {
  const { gate, asked, resumed } = takeovers()
  const a = lane('a')
  expect(gate.mayBegin(lane(undefined))).toBe(true)
  expect(gate.mayBegin(a)).toBe(false)
  expect(asked.map(({ key }) => key)).toEqual(['a'])
  asked[0]!.answer.resolve(true)
  await expect.poll(() => resumed).toEqual([a])
  expect(gate.mayBegin(a)).toBe(true)
  expect(gate.mayBegin(lane('a'))).toBe(true)
  expect(asked).toHaveLength(1)
})

test('L4 a key with a locked row, or without an answer, is asked about again within a second', async () => {
  const { gate, asked, resumed, errors } = takeovers()
  const [a, b] = [lane('a'), lane('b')]
  expect([gate.mayBegin(a), gate.mayBegin(b)]).toEqual([false, false])
  asked[0]!.answer.resolve(false)
  const failure = new Error('the database is away')
  asked[1]!.answer.reject(failure)
  await expect.poll(() => resumed.length, { timeout: 1000 }).toBe(2)
  expect(errors).toEqual([failure])
  expect([gate.mayBegin(a), gate.mayBegin(b)]).toEqual([false, false])
  expect(asked.map(({ key }) => key)).toEqual(['a', 'b', 'a', 'b'])
})

test('L4 L9 keys are asked about by few statements at a time, and no longer when the lease is lost', async () => {
  const { gate, asked, resumed, over } = takeovers()
  const lanes = Array.from({ length: 9 }, (_, n) => lane(String(n)))
  for (const one of lanes) expect(gate.mayBegin(one)).toBe(false)
  expect(asked).toHaveLength(4)
  asked[0]!.answer.resolve(true)
  await expect.poll(() => asked.length).toBe(5)
  over.abort()
  for (const { answer } of asked) answer.resolve(true)
  await Promise.resolve()
  await Promise.resolve()
  expect(asked).toHaveLength(5)
  expect(resumed).toEqual([lanes[0]])
})

test('L4 when no handler of the earlier owner can run any more, nothing is asked', () => {
  const { gate, asked } = takeovers(0)
  expect(gate.mayBegin(lane('a'))).toBe(true)
  expect(asked).toEqual([])
})
