import { createHash } from 'node:crypto'
import { SQSClient } from '@aws-sdk/client-sqs'
import { expect, onTestFinished, test } from 'vitest'
import type { Delivery } from '@txbox/core'
import { sqsSource } from '@txbox/sqs'
import { until } from '../../support/worlds/until.ts'
import { answeringServer, type Answer } from '../answering-server.ts'
import { clientSettings } from '../sqs-under-test.ts'

const NEVER = new AbortController().signal

function answered(output: object): Answer {
  return {
    status: 200,
    body: JSON.stringify(output),
    headers: { 'content-type': 'application/x-amz-json-1.0' },
  }
}

function messageOf(id: string) {
  return {
    MessageId: id,
    ReceiptHandle: `receipt of ${id}`,
    Body: '{}',
    MD5OfBody: createHash('md5').update('{}').digest('hex'),
    MessageAttributes: { 'txbox-id': { DataType: 'String', StringValue: id } },
    Attributes: { MessageGroupId: 'a', ApproximateReceiveCount: '1' },
  }
}

const SETTLEMENTS: readonly (readonly [string, (delivery: Delivery) => Promise<void>])[] = [
  ['accepted', (delivery) => delivery.accept()],
  ['accepted after its handling was recorded', (delivery) => delivery.accept({ recorded: true })],
  ['returned', (delivery) => delivery.retry({ delayMs: 0, error: undefined, counted: true })],
  ['rejected', (delivery) => delivery.reject({ error: new Error('never') })],
]

test.for(SETTLEMENTS)(
  'C22 a delivery that is %s with a receipt that is no longer valid loses the later ones of its group',
  async ([, settle]) => {
    const [returned, receives]: [string[], { Messages: object[] }[]] = [
      [],
      [{ Messages: ['a1', 'a2', 'a3'].map(messageOf) }],
    ]
    const endpoint = await answeringServer((operation, sent) => {
      if (operation === 'ReceiveMessage') return answered(receives.shift() ?? {})
      if (operation === 'GetQueueUrl') return answered({ QueueUrl: `${endpoint}/1/orders.fifo` })
      const { Entries = [] } = JSON.parse(sent) as { Entries?: { Id: string; ReceiptHandle: string }[] }
      const isOld = ({ ReceiptHandle }: { ReceiptHandle: string }): boolean =>
        ReceiptHandle === 'receipt of a1'
      returned.push(...Entries.filter((each) => !isOld(each)).map(({ ReceiptHandle }) => ReceiptHandle))
      return answered({
        Successful: Entries.filter((each) => !isOld(each)).map(({ Id }) => ({ Id })),
        Failed: Entries.filter(isOld).map(({ Id }) => ({ Id, Code: 'ReceiptHandleIsInvalid' })),
      })
    })
    const client = new SQSClient(clientSettings(endpoint))
    onTestFinished(() => client.destroy())
    const source = sqsSource({ client, queue: 'orders.fifo' })
    const open = await source.open({ prefetch: 10, failed: () => undefined })
    onTestFinished(() => open.close())
    const deliveries = await open.receive(10, { signal: NEVER })
    const order: string[] = []
    for (const delivery of deliveries) delivery.onLost!(() => void order.push(delivery.message.id))
    await settle(deliveries[0]!)
    await until(
      async () => deliveries[0]!.lost.aborted,
      () => 'the first is lost',
    )
    expect(order).toEqual(['a3', 'a2', 'a1'])
    await open.close()
    expect(returned.toSorted()).toEqual(['receipt of a2', 'receipt of a3'])
  },
)
