import { redisSource } from '@txbox/redis'
import { oneTraceThrough } from '../opentelemetry/one-trace-rules.ts'
import { useRedis } from './redis-under-test.ts'
import { publisherOf, urlAt } from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const redis = useRedis()

oneTraceThrough({
  system: 'redis',
  async place() {
    const stream = uniqueName()
    return {
      topic: stream,
      source: () => redisSource({ url: urlAt(redis.address), stream, group: 'billing' }),
    }
  },
  publisher: () => publisherOf({ url: urlAt(redis.address) }),
})
