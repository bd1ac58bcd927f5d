import { expect, test } from 'vitest'
import { Partitions } from '../../packages/kafka/src/publish/partitions.ts'

/** Keys and their hashes, from the tests of Kafka's Java client. */
const HASHES = [
  ['21', -973_932_308],
  ['foobar', -790_332_482],
  ['a-little-bit-long-string', -985_981_536],
  ['a-little-bit-longer-string', -1_486_304_829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58_897_971],
  ['abc', 479_470_107],
] as const

test.for(HASHES)('the key %s goes to the partition to which the Java client sends it', ([key, hash]) => {
  const partitions = new Partitions()
  for (const count of [1, 3, 7, 12, 100]) {
    expect(partitions.of(Buffer.from(key), count)).toBe((hash & 0x7fffffff) % count)
  }
})

test('records without a key take the partitions in turn; an empty key is a key', () => {
  const partitions = new Partitions()
  const places = Array.from({ length: 9 }, () => partitions.of(undefined, 3))
  expect(places.toSorted((a, b) => a - b)).toEqual([0, 0, 0, 1, 1, 1, 2, 2, 2])
  const empty = Buffer.alloc(0)
  expect(new Set(Array.from({ length: 9 }, () => partitions.of(empty, 3))).size).toBe(1)
})
