import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { quotedAnswer } from '../../packages/webhook/src/publish/quoted-answer.ts'

const URL_OF_CUSTOMER = new URL('https://shop.example/hooks/T0KEN%2Da/k?sig=s%20ig+n&flag')

test.for([
  ['POST /hooks/T0KEN%2Da/k?sig=s%20ig+n&flag', 'POST ***'],
  ['no route /hooks/T0KEN%2Da/k', 'no route ***'],
  ['token T0KEN-a, segment T0KEN%2Da', 'token ***, segment ***'],
  ['wrong sig: s ig n, or s%20ig+n', 'wrong sig: ***, or ***'],
  ['what is flag', 'what is ***'],
  ['key k is short', 'key k is short'],
  ['Bearer abc.def or abc.def', '*** or ***'],
  ['', ''],
])('N2 the answer %j is quoted as %j', ([answer, expected]) => {
  expect(quotedAnswer(answer!, URL_OF_CUSTOMER, ['Bearer abc.def'])).toBe(expected)
})

test('N2 property: user and password of Basic authentication are not quoted', () => {
  const secret = fc
    .string({ minLength: 4, maxLength: 20, unit: 'grapheme-ascii' })
    .filter((text) => !/[\s:*]/.test(text))
  fc.assert(
    fc.property(secret, secret, (user, password) => {
      const basic = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
      const answer = quotedAnswer(
        `<${user}> <${password}> <${user}:${password}> <${basic}>`,
        new URL('https://a.example'),
        [basic],
      )
      expect(answer).toBe('<***> <***> <***> <***>')
    }),
  )
})
