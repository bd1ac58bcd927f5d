import { crc32 } from 'node:zlib'

/** Keys that share one shard of the sixteen. */
export function keysOfOneShard(count: number, shard = 3): string[] {
  const keys: string[] = []
  for (let n = 0; keys.length < count; n += 1) if (crc32(`k${n}`) % 16 === shard) keys.push(`k${n}`)
  return keys
}
