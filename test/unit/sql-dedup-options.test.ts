import { Pool } from 'pg'
import { afterAll, expect, test } from 'vitest'
import {
  DedupStoreUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  createConsumer,
  sqlDedup,
} from '@txbox/consumer'
import { postgres } from '@txbox/postgres'
import { MemorySource } from '../support/subjects/memory-source.ts'

// Nothing listens on this port.
const pool = new Pool({ host: '127.0.0.1', port: 9 })
afterAll(() => pool.end())
const database = postgres({ db: pool })

const WRONG: readonly [string, readonly unknown[], string][] = [
  ['retentionMs', [999, 0, Number.NaN, 3_155_760_000_001, Infinity, '1'], 'from 1000 to 3155760000000'],
  ['leaseMs', [999, 3_600_001, Number.NaN, '1'], 'from 1000 to 3600000'],
  ['onUnavailable', ['ignore', true], "'fail' or 'process'"],
]

test.for(WRONG)(
  'the option %s is refused out of its bounds, which the error names',
  ([name, values, bound]) => {
    for (const value of values) {
      const make = (): unknown => sqlDedup({ database, [name]: value })
      expect(make).toThrow(InvalidOptionError)
      expect(make).toThrow(`the option '${name}' must be`)
      expect(make).toThrow(bound)
    }
  },
)

test('an unknown option, another object than a database, and a database without connections are refused', () => {
  expect(() => sqlDedup({ database, ttl: 5 } as never)).toThrow("there is no option 'ttl'")
  expect(() => sqlDedup({ database: pool as never })).toThrow(InvalidOptionError)
  expect(() => sqlDedup({ database: postgres() as never })).toThrow('cannot open connections')
  expect(() => sqlDedup(undefined as never)).toThrow(InvalidOptionError)
})

test('calls out of their bounds are refused before anything is sent', async () => {
  const dedup = sqlDedup({ database })
  const owner = '00000000-0000-4000-8000-000000000000'
  const token = `${owner}["a","b"]`
  for (const [call, kind] of [
    [() => dedup.begin({ consumer: '', key: 'a' }), InvalidOptionError],
    [() => dedup.begin({ consumer: 'x'.repeat(101), key: 'a' }), InvalidOptionError],
    [() => dedup.begin({ consumer: 'a', key: '' }), InvalidMessageError],
    [() => dedup.begin({ consumer: 'a', key: ['a'] as never }), InvalidMessageError],
    [() => dedup.begin({ consumer: 'a', key: 'a', leaseMs: 999 }), InvalidOptionError],
    [() => dedup.begin({ consumer: 'a', key: 'a', leaseMs: 3_600_001 }), InvalidOptionError],
    [() => dedup.extend(token, 999), InvalidOptionError],
    [() => dedup.complete(token, { retentionMs: 999 }), InvalidOptionError],
    [() => dedup.complete('short'), InvalidOptionError],
    [() => dedup.release(undefined as never), InvalidOptionError],
    [() => dedup.release(`${owner}txbox:a:b`), InvalidOptionError],
    [() => dedup.complete(token, { result: '' }), InvalidMessageError],
    [() => dedup.complete(token, { result: 'x'.repeat(1_048_577) }), InvalidMessageError],
  ] as const) {
    await expect(call()).rejects.toBeInstanceOf(kind)
  }
  await expect(dedup.release(token)).rejects.toBeInstanceOf(DedupStoreUnavailableError)
})

test("R7 a store with onUnavailable 'process' is refused without an inbox", () => {
  const dedup = sqlDedup({ database, onUnavailable: 'process' })
  const options = { source: new MemorySource(), name: 'orders', logger: false } as const
  expect(() => createConsumer({ ...options, dedup, handler: () => undefined })).toThrow(
    "the option 'dedup' must be without a store",
  )
})
