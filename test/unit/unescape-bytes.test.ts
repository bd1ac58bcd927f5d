import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { unescapeBytes } from '../../packages/postgres/src/relay/backlog-message.ts'

/** As the server encodes: https://www.postgresql.org/docs/current/functions-binarystring.html#ENCODE-FORMAT-ESCAPE */
function escape(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => {
    if (byte === 0x5c) return '\\\\'
    return byte === 0 || byte > 127 ? `\\${byte.toString(8).padStart(3, '0')}` : String.fromCharCode(byte)
  }).join('')
}

test('O13 any bytes are the same after the format escape', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      expect(unescapeBytes(escape(bytes))).toEqual(Buffer.from(bytes))
    }),
  )
})

test.each([
  ['', ''],
  ['\\\\', '5c'],
  ['\\\\000', '5c303030'],
  ['a\\000\\377\\\\b', '6100ff5c62'],
])('%j is decoded', (text, hexadecimal) => {
  expect(unescapeBytes(text).toString('hex')).toBe(hexadecimal)
})

test('a payload of a MiB without any ASCII takes no more than a moment', () => {
  const text = '\\320'.repeat(1024 * 1024)
  const before = process.cpuUsage()
  expect(unescapeBytes(text)).toHaveLength(1024 * 1024)
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1000).toBeLessThan(250)
})
