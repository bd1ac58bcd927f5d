import { expect, test } from 'vitest'
import type { LocalStore } from '@txbox/core/ports'
import { HubStore } from '../../packages/consumer/src/local/hub-store.ts'

const at = { consumer: 'billing', shard: 0 }
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A store whose statements run until the test ends them. */
class HeldStore {
  readonly running: { readonly what: string; readonly end: () => void }[] = []
  readonly store: LocalStore

  constructor() {
    this.store = {
      survived: () => this.#run('survived', undefined),
      isKeyUnlocked: (_: unknown, key: string) => this.#run(key, true),
    } as Partial<LocalStore> as LocalStore
  }

  get names(): readonly string[] {
    return this.running.map(({ what }) => what)
  }

  async end(): Promise<void> {
    this.running.shift()!.end()
    await tick()
  }

  #run<R>(what: string, result: R): Promise<R> {
    return new Promise((resolve) => this.running.push({ what, end: () => resolve(result) }))
  }
}

test('statements that wait begin when there are more connections, and fewer run when there are fewer', async () => {
  const held = new HeldStore()
  const hub = new HubStore(held.store, 1)
  const all = Array.from({ length: 6 }, () => hub.survived({} as never))
  await tick()
  expect(held.running.length).toBe(1)
  hub.connections = 3
  await tick()
  expect(held.running.length).toBe(3)
  hub.connections = 2
  await held.end()
  expect(held.running.length).toBe(2)
  await held.end()
  expect(held.running.length).toBe(2)
  hub.connections = 9
  await tick()
  for (let left = held.running.length; left > 0; left -= 1) await held.end()
  await Promise.all(all)
  expect(held.running).toEqual([])
})

test('questions about keys take one connection, however many there are, and one that fails is no obstacle', async () => {
  const held = new HeldStore()
  const hub = new HubStore(held.store, 2)
  const answers = ['a', 'b', 'c'].map((key) => hub.isKeyUnlocked(at, key))
  const settled = hub.survived({} as never)
  await tick()
  expect(held.names.toSorted()).toEqual(['a', 'survived'])
  for (const _ of held.names) await held.end()
  await settled
  expect(held.names).toEqual(['b'])
  await held.end()
  await held.end()
  expect(await Promise.all(answers)).toEqual([true, true, true])

  const refused = new Error('refused')
  const failing = new HubStore(
    {
      isKeyUnlocked: (_: unknown, key: string) =>
        key === 'a' ? Promise.reject(refused) : Promise.resolve(true),
    } as never,
    1,
  )
  expect(await Promise.allSettled([failing.isKeyUnlocked(at, 'a'), failing.isKeyUnlocked(at, 'b')])).toEqual([
    { status: 'rejected', reason: refused },
    { status: 'fulfilled', value: true },
  ])
})
