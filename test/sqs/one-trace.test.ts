import { sqsSource } from '@txbox/sqs'
import { oneTraceThrough } from '../opentelemetry/one-trace-rules.ts'
import { useSqs } from './sqs-under-test.ts'

const sqs = useSqs()

oneTraceThrough({
  system: 'aws.sqs',
  async place() {
    const queue = await sqs.current.queue({ fifo: true })
    return { topic: queue, source: () => sqsSource({ client: sqs.current.client, queue, waitMs: 1000 }) }
  },
  publisher: () => sqs.current.publisher(),
})
