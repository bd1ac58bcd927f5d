import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { PermanentError } from '@txbox/core'
import { explanationOf } from '@txbox/core/internal'

const HERE = path.basename(import.meta.filename)

class OrderError extends Error {}

describe('explanationOf', () => {
  test.each([
    [new TypeError('no total'), 'no total (TypeError'],
    [new OrderError('no order'), 'no order (OrderError'],
    [new PermanentError('never'), 'never (PermanentError'],
    [new Error('plain'), 'plain (Error'],
    [new TypeError(''), 'TypeError (TypeError'],
    [Object.assign(new OrderError('denied'), { name: 'error' }), 'denied (OrderError'],
    [new Error('outer', { cause: new Error('inner') }), 'outer: inner (Error'],
  ])('names the reason, the class and the first own frame: %s', (error, text) => {
    const explanation = explanationOf(error)
    expect(explanation.slice(0, text.length)).toBe(text)
    expect(explanation.slice(text.length)).toMatch(new RegExp(String.raw`^ at .*${HERE}:\d+:\d+\)?\)$`))
  })

  test('names the function that threw', () => {
    function placeOrder(): never {
      throw new TypeError('no total')
    }
    const thrown = ((): unknown => {
      try {
        return placeOrder()
      } catch (error) {
        return error
      }
    })()
    expect(explanationOf(thrown)).toMatch(/^no total \(TypeError at placeOrder \(.*\)\)$/)
  })

  test('leaves out frames of Node and of installed packages, and looks at the causes then', () => {
    const cause = Object.assign(new Error('inner'), {
      stack:
        'Error: inner\n    at query (/app/node_modules/pg/lib/client.js:1:1)\n    at node:internal/x:1:1\n    at place (/app/orders.js:2:3)',
    })
    const error = Object.assign(new Error('outer', { cause }), {
      stack: 'Error: outer\n    at x (C:\\app\\node_modules\\y\\index.js:1:1)',
    })
    expect(explanationOf(error)).toBe('outer: inner (Error at place (/app/orders.js:2:3))')
    expect(explanationOf(Object.assign(error, { cause: undefined }))).toBe('outer (Error)')
  })

  test('a message with lines that look like frames is no frame', () => {
    const error = Object.assign(new Error('a\n    at fake (/app/fake.js:1:1)'), {
      stack: 'Error: a\n    at fake (/app/fake.js:1:1)\n    at place (/app/orders.js:2:3)',
    })
    expect(explanationOf(error)).toBe('a at fake (/app/fake.js:1:1) (Error at place (/app/orders.js:2:3))')
  })

  test('a long message leaves room for the frame', () => {
    const explanation = explanationOf(new TypeError('x'.repeat(5000)), 500)
    expect(explanation.length).toBeLessThanOrEqual(500)
    expect(explanation).toMatch(new RegExp(String.raw`^x+… \(TypeError at .*${HERE}`))
  })

  test('passwords are masked, and whatever was thrown is explained', () => {
    expect(explanationOf(new Error('no connection to postgres://me:secret@host/db'))).not.toContain('secret')
    expect(explanationOf('text')).toBe('text')
    expect(explanationOf(undefined)).toBe('undefined')
    expect(explanationOf({})).toBe('an object')
    const hostile = new Proxy(new Error('x'), {
      get: () => {
        throw new Error('hostile')
      },
      getPrototypeOf: () => {
        throw new Error('hostile')
      },
    })
    expect(typeof explanationOf(hostile)).toBe('string')
    expect(explanationOf(Object.assign(new Error('x'), { stack: 5, name: 7 }))).toBe('x (Error)')
  })
})
