import { expect, test } from 'vitest'
import { causeOf, causing } from '../../packages/core/src/sending/causes-of-messages.ts'

const causeWith = (id: string, stored?: () => void) => ({ correlationId: id, causationId: id, stored })
const idOf = (tx: object): string | undefined => causeOf(tx)?.causationId

test('T7 inside a handler, another one with the same transaction has its own cause, and the outer one has its cause back', async () => {
  const tx = {}
  const seen: (string | undefined)[] = []
  await causing(tx, causeWith('outer'), async () => {
    seen.push(idOf(tx))
    await causing(tx, causeWith('inner'), () => void seen.push(idOf(tx)))
    seen.push(idOf(tx))
    await causing(tx, causeWith('failing'), () => Promise.reject(new Error('mine'))).catch(() => undefined)
    seen.push(idOf(tx))
  })
  expect(seen).toEqual(['outer', 'inner', 'outer', 'outer'])
  expect(causeOf(tx)).toBeUndefined()
})

test('T3 what an inner handler stores has been stored in the transaction of the outer one, too', async () => {
  const tx = {}
  const calls: string[] = []
  await causing(
    tx,
    causeWith('outer', () => void calls.push('outer')),
    async () => {
      await causing(tx, causeWith('without'), () => causeOf(tx)!.stored!())
      await causing(
        tx,
        causeWith('inner', () => void calls.push('inner')),
        () => causeOf(tx)!.stored!(),
      )
      causeOf(tx)!.stored!()
    },
  )
  expect(calls).toEqual(['outer', 'inner', 'outer', 'outer'])
})

test('handlers that run side by side in one transaction leave no cause behind', async () => {
  const tx = {}
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const running = [
    causing(tx, causeWith('first'), () => first.promise),
    causing(tx, causeWith('second'), () => second.promise),
  ]
  expect(idOf(tx)).toBe('second')
  first.resolve()
  await running[0]
  expect(idOf(tx)).toBe('second')
  second.resolve()
  await running[1]
  expect(causeOf(tx)).toBeUndefined()
})

test('what is no object has no cause, and the handler runs', async () => {
  expect(await causing(undefined, causeWith('none'), () => 'result')).toBe('result')
})
