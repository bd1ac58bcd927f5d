import { expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { fill } from '../../packages/mysql/src/connection/literals.ts'
import { engineOf } from '../../packages/mysql/src/connection/server.ts'

test.for([
  ['9.7.4-2', 'mysql'],
  ['8.0.19', 'mysql'],
  ['8.4.3-log', 'mysql'],
  ['8.0.mysql_aurora.3.05.2', 'mysql'],
  ['8.0.36-28', 'mysql'],
  ['10.11.19-MariaDB-0+deb12u1', 'mariadb'],
  ['5.5.5-10.6.0-MariaDB', 'mariadb'],
  ['11.8.2-MariaDB-ubu2404', 'mariadb'],
] as const)('a server that says %s is %s', ([version, engine]) => {
  expect(engineOf(version)).toBe(engine)
})

test.for([
  ['8.0.11-TiDB-v8.5.0', /TiDB.*SKIP LOCKED/s],
  ['5.7.25-TiDB-v7.1.0', /TiDB/],
  ['5.7.25-OceanBase-v4.2.1', /OceanBase/],
  ['8.0.30-Vitess', /Vitess/],
  ['5.7.44', /5\.7\.44.*8\.0\.19/s],
  ['8.0.18', /8\.0\.18/],
  ['10.5.28-MariaDB', /10\.5\.28.*10\.6/s],
  ['5.5.5-10.4.0-MariaDB', /10\.4\.0/],
  ['nonsense', /nonsense/],
] as const)('a server that says %s is refused, by name', ([version, expected]) => {
  expect(() => engineOf(version)).toThrow(InvalidOptionError)
  expect(() => engineOf(version)).toThrow(expected)
})

test('values are literals that mean the same in every SQL mode and character set', () => {
  const values = ['plain', "it's", 'back\\slash', 'ü?', Buffer.from([0, 255]), 7, 2n ** 63n, null, ['a', 1]]
  expect(fill('? ? ? ? ? ? ? ? ?', values)).toBe(
    "_utf8mb4'plain' _utf8mb4 X'69742773' _utf8mb4 X'6261636b5c736c617368' _utf8mb4 X'c3bc3f' X'00ff' 7 " +
      "9223372036854775808 null _utf8mb4'a',1",
  )
  expect(() => fill('?', [1.5])).toThrow(RangeError)
  expect(() => fill('? ?', [1])).toThrow('placeholders')
})
