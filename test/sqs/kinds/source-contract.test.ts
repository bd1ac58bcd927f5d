import { SQSClient } from '@aws-sdk/client-sqs'
import { inject, onTestFinished } from 'vitest'
import { sqsSource } from '@txbox/sqs'
import { sourceContract } from '@txbox/testing'
import { testContract } from '../../support/subjects/contract-tests.ts'
import { attributeOf, clientSettings, endpointAt, useSqs } from '../sqs-under-test.ts'

const sqs = useSqs()
const fifo = inject('queues') === 'fifo'
const LEASE_MS = 2000

const traits = {
  ...{ delays: true, countsDeliveries: !fifo, keepsRejected: true, ordersKeys: fifo },
  ...{ settlesInTransaction: false, leaseMs: LEASE_MS },
}
const cases = sourceContract(
  { traits, countsReturns: true, inOrder: false, marksRedelivered: !fifo },
  async () => {
    const queue = await sqs.current.queue({ fifo })
    const deadLetterQueue = await sqs.current.queue({ fifo })
    const network = await sqs.current.network()
    const client = new SQSClient({ ...clientSettings(endpointAt(network)), maxAttempts: 3 })
    onTestFinished(() => client.destroy())
    const rejected: string[] = []
    return {
      source: sqsSource({ queue, deadLetterQueue, client, visibilityTimeoutMs: LEASE_MS }),
      send: (ids, { key } = {}) =>
        sqs.current.send(
          queue,
          ids.map((id) => ({
            MessageBody: '{}',
            MessageAttributes: {
              'txbox-id': { DataType: 'String', StringValue: id },
              ...(key !== undefined && { 'txbox-key': { DataType: 'String', StringValue: key } }),
            },
            ...(fifo && { MessageGroupId: key ?? id, MessageDeduplicationId: id }),
          })),
        ),
      network,
      left: async () => {
        const { ready, out } = await sqs.current.counts(queue)
        return ready + out
      },
      rejected: async () => {
        const taken = await sqs.current.take(deadLetterQueue)
        rejected.push(...taken.map((message) => attributeOf(message, 'txbox-id') ?? ''))
        return rejected
      },
    }
  },
)
testContract(cases)
