import { afterAll, inject } from 'vitest'
import { oneTraceThrough } from '../opentelemetry/one-trace-rules.ts'
import { sourceOf } from './group-under-test.ts'
import { KafkaUnderTest } from './kafka-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

oneTraceThrough({
  system: 'kafka',
  async place() {
    const topic = await kafka.topic({ partitions: 1 })
    return { topic, source: () => sourceOf(kafka, topic) }
  },
  publisher: () => kafka.publisher(),
})
