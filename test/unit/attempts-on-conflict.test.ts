import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { attemptsOnConflict } from '../../packages/core/src/time/attempts-on-conflict.ts'

const pauses: number[] = []
vi.mock('../../packages/core/src/time/pause.ts', () => ({
  pause: async (ms: number) => void pauses.push(ms),
}))
beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0.5))
afterEach(() => {
  pauses.length = 0
  vi.restoreAllMocks()
})

const conflict = new Error('conflict')
const isConflict = (error: unknown): boolean => error === conflict

test('work is repeated after a conflict, with growing pauses, until it succeeds', async () => {
  const attempts: number[] = []
  const work = async (attempt: number): Promise<string> => {
    attempts.push(attempt)
    if (attempt < 3) throw conflict
    return 'done'
  }
  expect(await attemptsOnConflict(work, { isConflict }, { attempts: 5 })).toBe('done')
  expect(attempts).toEqual([1, 2, 3])
  expect(pauses).toEqual([7.5, 15])
})

test('the last conflict is thrown, and another error at once', async () => {
  const work = vi.fn(() => Promise.reject(conflict))
  await expect(attemptsOnConflict(work, { isConflict }, { attempts: 2 })).rejects.toBe(conflict)
  expect(work).toHaveBeenCalledTimes(2)
  const wrong = vi.fn(() => Promise.reject(new Error('wrong')))
  await expect(attemptsOnConflict(wrong, { isConflict }, { attempts: 2 })).rejects.toThrow('wrong')
  expect(wrong).toHaveBeenCalledTimes(1)
})

test('pauses are ten times as long while a conflict lasts', async () => {
  const work = (attempt: number): Promise<unknown> =>
    attempt === 1 ? Promise.reject(conflict) : Promise.resolve()
  await attemptsOnConflict(work, { isConflict, isLastingConflict: isConflict }, { attempts: 2 })
  expect(pauses).toEqual([75])
})

test('an aborted signal prevents the next attempt, with its reason', async () => {
  const stopping = new AbortController()
  const work = vi.fn(async () => {
    stopping.abort(new Error('stopping'))
    throw conflict
  })
  const running = attemptsOnConflict(work, { isConflict }, { attempts: 5, signal: stopping.signal })
  await expect(running).rejects.toThrow('stopping')
  expect(work).toHaveBeenCalledTimes(1)
})
