import { expect, test } from 'vitest'
import { UnsupportedTransactionError } from '@txbox/core'
import { Resolver } from '../../packages/sql/src/transactions/resolver/resolver.ts'

/** A `pg` client as far as it is recognized. */
class RecognizedClient {
  query(): void {}

  escapeIdentifier(): void {}
}

/** A handle that stands for the transaction of the moment, as the transactional hosts of frameworks have it. */
function host(current: () => object): object {
  return new Proxy(new RecognizedClient(), { get: (_, name) => Reflect.get(current(), name) as unknown })
}

test('a handle that stands for a connection, and later for a transaction of a library, is recognized each time', async () => {
  const client = new RecognizedClient()
  const underneath = new RecognizedClient()
  const queryRunner = {
    startTransaction: () => undefined,
    connect: async () => underneath,
    isTransactionActive: true,
    isReleased: false,
  }
  let current: object = client
  const resolver = new Resolver('postgres')
  const handle = host(() => current)
  expect((await resolver.transaction(handle)).name).toBe('pg')
  current = queryRunner
  expect(await resolver.transaction(handle)).toMatchObject({ name: 'TypeORM', connection: underneath })
  current = client
  expect((await resolver.transaction(handle)).name).toBe('pg')
})

test('a library of the user is asked each time, also about a connection that is known', async () => {
  const client = new RecognizedClient()
  const underneath = new RecognizedClient()
  const opened = new Set<unknown>()
  const resolver = new Resolver('postgres', [
    {
      name: 'Own',
      recognises: (handle): handle is object => opened.has(handle),
      connectionOf: () => underneath,
    },
  ])
  expect((await resolver.transaction(client)).connection).toBe(client)
  opened.add(client)
  expect((await resolver.transaction(client)).connection).toBe(underneath)
  opened.delete(client)
  expect((await resolver.transaction(client)).connection).toBe(client)
})

test('a handle of a library is asked each time for its connection', async () => {
  const connections = [new RecognizedClient(), new RecognizedClient()]
  const queryRunner = {
    startTransaction: () => undefined,
    connect: async () => connections.shift(),
    isTransactionActive: true,
    isReleased: false,
  }
  const resolver = new Resolver('postgres')
  const [first, second] = [...connections]
  expect((await resolver.transaction(queryRunner)).connection).toBe(first)
  expect((await resolver.transaction(queryRunner)).connection).toBe(second)
})

test('plain objects, and proxies, are recognized one by one', async () => {
  const noop = (): void => undefined
  const mysql2 = { query: noop, execute: noop, beginTransaction: noop }
  // A connection of mariadb has everything that identifies one of mysql2.
  const mariadb = { ...mysql2, batch: noop }
  let current: object = mysql2
  const proxy = host(() => current)
  const resolver = new Resolver('mysql')
  expect((await resolver.transaction(mysql2)).name).toBe('mysql2')
  expect((await resolver.transaction(mariadb)).name).toBe('mariadb')
  expect((await resolver.transaction(proxy)).name).toBe('mysql2')
  current = mariadb
  expect((await resolver.transaction(proxy)).name).toBe('mariadb')
})

test('an instance of a known class that lacks its members is not recognized', async () => {
  const resolver = new Resolver('postgres')
  expect((await resolver.transaction(new RecognizedClient())).name).toBe('pg')
  const broken = Object.assign(new RecognizedClient(), { query: undefined })
  await expect(async () => resolver.transaction(broken)).rejects.toThrow(UnsupportedTransactionError)
})

test('O3 a connection is found in the same tick, known or not, so that calls keep their order', () => {
  const resolver = new Resolver('postgres')
  for (let time = 0; time < 2; time += 1) {
    expect(resolver.transaction(new RecognizedClient())).toMatchObject({ name: 'pg' })
  }
})
