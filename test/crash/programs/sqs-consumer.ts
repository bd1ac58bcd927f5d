// A consumer of a queue of SQS with an inbox on PostgreSQL: the effect of a message is a row.
import { setTimeout as sleep } from 'node:timers/promises'
import { createConsumer } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import { sqsSource } from '@txbox/sqs'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface SqsConsumerConfig extends ProgramConfig {
  readonly endpoint: string
  readonly region: string
  readonly queue: string
  readonly deadLetterQueue: string
  readonly visibilityTimeoutMs: number
}

const config = configOf<SqsConsumerConfig>()
const { endpoint, region, queue, deadLetterQueue, visibilityTimeoutMs } = config
const pool = new Mortal(config.fate).pool(config, 6)
const consumer = createConsumer({
  source: sqsSource<{ key: string; n: number }>({
    ...{ endpoint, region, queue, deadLetterQueue, visibilityTimeoutMs, waitMs: 1000 },
  }),
  inbox: createInbox({ database: postgres({ db: pool }), consumer: 'receiver' }),
  concurrency: 5,
  retry: { attempts: 1000, delayMs: () => 10 },
  handler: async (tx, { payload: { key, n } }) => {
    await tx.query('insert into public.effects (name) values ($1)', [`${key}:${n}`])
    await sleep(5 + Math.random() * 20)
    if (Math.random() < 0.02) throw new Error('the storm')
  },
  logger: false,
})
consumer.on('error', ({ error }) => report(`error ${String(error)}`))
await consumer.start()
report('started')
