import { expect, test } from 'vitest'
import { Turns, TurnsByObject } from '../../packages/core/src/time/turns.ts'

test('work runs in the order of the calls, one piece at a time, and a failure does not stop the work behind it', async () => {
  const turns = new Turns()
  const log: string[] = []
  const first = Promise.withResolvers<string>()
  const one = turns.run(async () => {
    log.push('one begins')
    const result = await first.promise
    log.push('one ends')
    return result
  })
  const two = turns.run(() => Promise.reject(new Error('two')))
  const three = turns.run(async () => void log.push('three'))
  await Promise.resolve()
  first.resolve('done')
  expect(await one).toBe('done')
  await expect(two).rejects.toThrow('two')
  await three
  expect(log).toEqual(['one begins', 'one ends', 'three'])
})

test('idle waits for work that is added while it waits', async () => {
  const turns = new Turns()
  const log: string[] = []
  void turns.run(async () => {
    void turns.run(async () => void log.push('inner'))
  })
  await turns.idle()
  expect(log).toEqual(['inner'])
})

test('the same object gets the same turns, and another object turns of its own', () => {
  const turns = new TurnsByObject()
  const [a, b] = [{}, {}]
  expect(turns.of(a)).toBe(turns.of(a))
  expect(turns.of(a)).not.toBe(turns.of(b))
})
