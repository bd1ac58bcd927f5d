import { SNSClient } from '@aws-sdk/client-sns'
import { sqsSource } from '@txbox/sqs'
import { describe, onTestFinished } from 'vitest'
import { oneTraceThrough } from '../../opentelemetry/one-trace-rules.ts'
import { clientSettings, useSqs } from '../sqs-under-test.ts'

// ElasticMQ has no SNS.
const sqs = useSqs()

// Without raw delivery, the headers travel in the envelope of SNS.
describe.each([false, true])('a queue that subscribes to a topic, with raw delivery: %s', (raw) => {
  oneTraceThrough({
    system: 'aws.sqs',
    async place() {
      const queue = await sqs.current.queue()
      const name = sqs.current.name('topic')
      const { topicArn } = sqs.current.fauxqs!.createTopic(name)
      const attributes = raw ? { RawMessageDelivery: 'true' } : {}
      sqs.current.fauxqs!.subscribe({ topic: name, queue, attributes })
      const source = () => sqsSource({ client: sqs.current.client, queue, waitMs: 1000 })
      return { topic: topicArn, source }
    },
    publisher() {
      const snsClient = new SNSClient(clientSettings(sqs.current.endpoint))
      onTestFinished(() => snsClient.destroy())
      return sqs.current.publisher({ snsClient })
    },
  })
})
