import { ListQueuesCommand, SQSClient } from '@aws-sdk/client-sqs'
import { addressInEnvironment, type ServerKind } from './server.ts'

/** A server that speaks SQS, beside the one that the tests start by themselves. */
export const sqsServer: ServerKind = {
  title: 'A server that speaks SQS',
  sources: ['TXBOX_TEST_SQS_URL', 'TXBOX_TEST_ELASTICMQ_URL'].map((name) =>
    addressInEnvironment(name, describeSqs),
  ),
  remedy:
    'Start ElasticMQ, and set TXBOX_TEST_ELASTICMQ_URL to its address, such as http://127.0.0.1:9324; or set TXBOX_TEST_SQS_URL to ' +
    'https://sqs.REGION.amazonaws.com, and AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to those of a user who may create queues.',
}

async function describeSqs(endpoint: string): Promise<string> {
  process.env['AWS_REGION'] ??= 'eu-central-1'
  process.env['AWS_ACCESS_KEY_ID'] ??= 'test'
  process.env['AWS_SECRET_ACCESS_KEY'] ??= 'test'
  const client = new SQSClient({ endpoint })
  try {
    await client.send(new ListQueuesCommand({ MaxResults: 1 }))
    return `SQS at ${endpoint}`
  } finally {
    client.destroy()
  }
}
