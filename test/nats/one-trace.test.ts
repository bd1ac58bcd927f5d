import { natsSource } from '@txbox/nats'
import { oneTraceThrough } from '../opentelemetry/one-trace-rules.ts'
import { useNats } from './nats-under-test.ts'

const nats = useNats()

oneTraceThrough({
  system: 'nats',
  async place() {
    const stream = await nats.stream()
    const source = { servers: nats.url, stream, consumer: 'billing', declare: {} }
    return { topic: `${stream}.a`, source: () => natsSource(source) }
  },
  publisher: () => nats.publisher(),
})
