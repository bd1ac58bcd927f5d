import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { GatheredIds } from '../../packages/redis/src/receive/gathered-ids.ts'

/** Commands that are answered when the test says so. */
function commands() {
  const sent: {
    readonly ids: readonly string[]
    readonly answer: PromiseWithResolvers<readonly 'ours'[]>
  }[] = []
  const gathered = new GatheredIds((ids) => {
    const answer = Promise.withResolvers<readonly 'ours'[]>()
    sent.push({ ids, answer })
    return answer.promise
  })
  return { gathered, sent, ids: () => sent.map(({ ids }) => ids) }
}

test('the ids of one turn are one command, and those that come while it is in flight are the next one', async () => {
  const { gathered, sent, ids } = commands()
  const first = ['1', '2'].map((id) => gathered.add(id))
  await turn()
  await turn()
  expect(ids()).toEqual([['1', '2']])
  const second = ['3', '4', '5'].map((id) => gathered.add(id))
  await turn()
  await turn()
  expect(ids()).toEqual([['1', '2']])
  sent[0]!.answer.resolve(['ours', 'ours'])
  expect(await Promise.all(first)).toEqual(['ours', 'ours'])
  await turn()
  await turn()
  expect(ids()).toEqual([
    ['1', '2'],
    ['3', '4', '5'],
  ])
  sent[1]!.answer.resolve(['ours', 'ours', 'ours'])
  expect(await Promise.all(second)).toEqual(['ours', 'ours', 'ours'])
})

test('a command that fails fails for its own ids, and the next ones are sent', async () => {
  const { gathered, sent, ids } = commands()
  const lost = expect(gathered.add('1')).rejects.toThrow('cut')
  await turn()
  const kept = gathered.add('2')
  sent[0]!.answer.reject(new Error('cut'))
  await lost
  await turn()
  await turn()
  expect(ids()).toEqual([['1'], ['2']])
  sent[1]!.answer.resolve(['ours'])
  expect(await kept).toBe('ours')
  await turn()
  const later = gathered.add('3')
  await turn()
  await turn()
  sent[2]!.answer.resolve(['ours'])
  expect(await later).toBe('ours')
})
