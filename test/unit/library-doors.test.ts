import { describe, expect, test } from 'vitest'
import {
  DatabaseUnavailableError,
  InvalidOptionError,
  defineLibrary,
  sqlTransaction,
  type TransactionLibrary,
} from '@txbox/core'
import { Resolver } from '../../packages/sql/src/transactions/resolver/resolver.ts'

const query = async (): Promise<object> => ({ rows: [] })
const recognises = (value: unknown): value is object => value === root
const root = { own: true }

describe('sqlTransaction', () => {
  test.for([
    [undefined, /'name' must be a text, not undefined/],
    [{ query }, /'name' must be a text, not undefined/],
    [{ name: '', query }, /'name' must be a text/],
    [{ name: 'mine' }, /sqlTransaction\(mine\): 'query' must be a function, not undefined/],
    [{ name: 'mine', query, isOpen: true }, /'isOpen' must be a function, not true/],
    [{ name: 'mine', query, close: 'now' }, /'close' must be a function/],
  ] as const)('refuses %o', ([options, message]) => {
    expect(() => sqlTransaction(options as never)).toThrow(InvalidOptionError)
    expect(() => sqlTransaction(options as never)).toThrow(message)
  })

  test.for([{}, () => undefined])('is recognized through a proxy whose target is %o', async (target) => {
    const tx = sqlTransaction({ name: 'mine', query })
    const proxy = new Proxy(target, { get: (_, name) => Reflect.get(tx, name) as unknown })
    expect(await new Resolver('postgres').transaction(proxy)).toMatchObject({ name: 'sqlTransaction' })
  })
})

describe('defineLibrary', () => {
  const library = { name: 'Own', recognises, connectionOf: () => undefined }
  const transact = async (): Promise<never> => {
    throw new Error('not called')
  }

  test.for([
    [undefined, /'name' must be a text, not undefined/],
    [{ ...library, name: 1 }, /'name' must be a text, not 1/],
    [{ ...library, recognises: undefined }, /defineLibrary\(Own\): 'recognises' must be a function/],
    [{ ...library, connectionOf: {} }, /'connectionOf' must be a function/],
    [{ ...library, isOpen: true }, /'isOpen' must be a function/],
    [{ ...library, root: { transact } }, /'root\.recognises' must be a function/],
    [{ ...library, root: { recognises } }, /'root\.transact' must be a function/],
    [{ ...library, root: { recognises, transact, poolOf: 1 } }, /'root\.poolOf' must be a function/],
    [{ ...library, root: { recognises, transact, borrow: 1 } }, /'root\.borrow' must be a function/],
    [{ ...library, root: { recognises, transact, maxConnections: 1 } }, /'root\.maxConnections' must be a/],
  ] as const)('refuses %o', ([described, message]) => {
    expect(() => defineLibrary(described as never)).toThrow(InvalidOptionError)
    expect(() => defineLibrary(described as never)).toThrow(message)
  })

  describe('a root', () => {
    const rootWith = (part: Partial<NonNullable<TransactionLibrary['root']>>): ReturnType<Resolver['root']> =>
      new Resolver('postgres', [
        defineLibrary<unknown, unknown>({ ...library, root: { recognises, transact, ...part } }),
      ]).root('postgres', root)

    test('that has no pool yet says that it must be connected first', async () => {
      const query = rootWith({ poolOf: () => undefined }).query(root, 'select 1', [], 1000)
      await expect(query).rejects.toThrow(DatabaseUnavailableError)
      await expect(query).rejects.toThrow(/The Own root has no pool yet. Connect it before/)
    })

    test('whose pool is something else names what it is, and what to pass', async () => {
      const query = rootWith({ poolOf: () => new Map() }).query(root, 'select 1', [], 1000)
      await expect(query).rejects.toThrow(InvalidOptionError)
      await expect(query).rejects.toThrow(/Under the Own root is .*, not a pool .* Pass a pool of the driver/)
    })

    test('that lends no connection says who needs one', async () => {
      const connect = rootWith({}).connect(root)
      await expect(connect).rejects.toThrow(InvalidOptionError)
      await expect(connect).rejects.toThrow(/A Own root lends no connection, which the relay/)
    })

    test('gives back a connection that txbox does not know', async () => {
      const given: boolean[] = []
      const borrow = async (): Promise<never> =>
        ({ connection: {}, giveBack: (broken: boolean) => given.push(broken) }) as never
      await expect(rootWith({ borrow }).connect(root)).rejects.toThrow(/Expected an open transaction/)
      expect(given).toEqual([false])
    })
  })
})
