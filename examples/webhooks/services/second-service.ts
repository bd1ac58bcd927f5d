// The second service: follows the receiver's events with an inbox of its own. It knows nothing of the receiver's database.
import { createServer, type IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import { createInbox, type InboxMessage } from 'txbox'
import { createConsumer } from 'txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import type { Transaction } from 'kysely'
import type { RepositoryChanged } from './repository-changed.ts'
import type { SecondServiceTables } from './second-service-tables.ts'
import { openDatabase } from './service-database.ts'
import { announceReady, environment } from './supervised.ts'

const { db, database } = openDatabase<SecondServiceTables>(environment('DATABASE_URL'), 10)
const inbox = createInbox({
  database,
  consumer: 'activity-feed',
  // Only the demo needs this callback, to count duplicates. A kill may lose one count.
  onDuplicate: ({ message: { id } }) => {
    const arrival = { message_id: id, outcome: 'duplicate' }
    db.insertInto('arrivals').values(arrival).execute().catch(console.error)
  },
})

/** Commits with the claim of the inbox; the event is acknowledged after that. */
async function appendToFeed(
  tx: Transaction<SecondServiceTables>,
  { id, payload }: InboxMessage<RepositoryChanged>,
): Promise<void> {
  const { repository, number, deliveryId, event } = payload
  await tx.insertInto('feed').values({ repository, number, delivery_id: deliveryId, event }).execute()
  await tx.insertInto('arrivals').values({ message_id: id, outcome: 'processed' }).execute()
}

/** The relay posts the next event of a repository when the previous event is answered, which keeps their order. */
async function receive(request: IncomingMessage): Promise<{ status: number; answer: string }> {
  const { 'idempotency-key': id } = request.headers
  if (typeof id !== 'string') return { status: 400, answer: 'the header idempotency-key is missing' }
  await inbox.run({ id, payload: (await json(request)) as RepositoryChanged }, appendToFeed)
  return { status: 200, answer: 'done' }
}

function listen(port: number): void {
  const server = createServer((request, response) => {
    void receive(request)
      .catch((error: unknown) => {
        console.error(error)
        return { status: 500, answer: 'failed' }
      })
      .then(({ status, answer }) => response.writeHead(status, { 'content-type': 'text/plain' }).end(answer))
  })
  server.listen(port, '127.0.0.1', announceReady)
}

const amqpUrl = process.env['AMQP_URL']
if (amqpUrl === undefined) {
  listen(Number(environment('PORT')))
} else {
  // The queue has a single active consumer, and dead letters go to another queue.
  const queue = environment('QUEUE')
  const source = rabbitmqSource<RepositoryChanged>({ url: amqpUrl, queue, keepsRejected: true })
  await createConsumer({ source, inbox, prefetch: 50, handler: appendToFeed }).start()
  announceReady()
}
