import { expect, test } from 'vitest'
import { isCausedBy, isConnectionError, withCauses } from '../../packages/core/src/internal.ts'

const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })

test.for<[string, unknown]>([
  ['the error itself', refused],
  ['its cause', new Error('a', { cause: new Error('b', { cause: refused }) })],
  ['the parent of Sequelize', Object.assign(new Error('a'), { parent: refused })],
  ['the details of Prisma', { meta: { driverAdapterError: new Error('a', { cause: refused }) } }],
  ['an AggregateError', new Error('a', { cause: new AggregateError([new Error('b'), refused]) })],
])('a connection error is found as %s', ([, error]) => {
  expect(isConnectionError(error)).toBe(true)
})

test('the errors of an AggregateError are causes only if asked for', () => {
  const error = new AggregateError([refused, new Error('b'), new Error('c')])
  expect([...withCauses(error)]).toEqual([error])
  expect([...withCauses(error, 2)]).toEqual([error, ...error.errors.slice(0, 2)])
})

test('errors that cause each other are found once, nearest first', () => {
  const [a, b, c] = [new AggregateError([]), new Error('b'), new Error('c')]
  a.cause = b
  b.cause = a
  a.errors.push(c, a, b)
  expect([...withCauses(a, 10)]).toEqual([a, b, c])
})

test('causes without end, and values that cannot be read, end the search', () => {
  const endless = (): object => ({
    get cause() {
      return endless()
    },
    get errors() {
      return Array.from({ length: 1000 }, endless)
    },
  })
  expect([...withCauses(endless(), 10)].length).toBeLessThan(50)
  const hostile = new Proxy([], {
    get() {
      throw new Error('A getter threw.')
    },
  })
  for (const error of [hostile, { errors: hostile }, { cause: hostile }, null, undefined, 'text', 7]) {
    expect(isCausedBy(error, () => false, 10)).toBe(false)
    expect(isConnectionError(error)).toBe(false)
  }
})
