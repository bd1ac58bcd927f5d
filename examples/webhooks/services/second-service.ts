// The second service: follows the receiver's events with an inbox of its own. It knows nothing of the receiver's database.
import { createServer, type IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import { createInbox, type InboxMessage } from '@txbox/inbox'
import type { Transaction } from 'kysely'
import { consumeInOrder } from './consume-in-order.ts'
import type { RepositoryChanged } from './repository-changed.ts'
import type { SecondServiceTables } from './second-service-tables.ts'
import { openDatabase } from './service-database.ts'
import { announceReady, environment } from './supervised.ts'

const { db, database } = openDatabase<SecondServiceTables>(environment('DATABASE_URL'), 10)
const inbox = createInbox({ database, consumer: 'activity-feed' })

async function appendToFeed(
  tx: Transaction<SecondServiceTables>,
  { payload }: InboxMessage<RepositoryChanged>,
): Promise<void> {
  const { repository, number, deliveryId, event } = payload
  await tx.insertInto('feed').values({ repository, number, delivery_id: deliveryId, event }).execute()
}

/** Resolves when the event's effect is committed, now or at an earlier delivery: then it may be acknowledged. */
async function follow(event: InboxMessage<RepositoryChanged>): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const { status } = await inbox.process(tx, event, appendToFeed)
    await tx.insertInto('arrivals').values({ message_id: event.id, outcome: status }).execute()
  })
}

/** The relay posts the next event of a repository once the last one is answered: that keeps their order. */
async function receive(request: IncomingMessage): Promise<{ status: number; answer: string }> {
  const { 'idempotency-key': id } = request.headers
  if (typeof id !== 'string') return { status: 400, answer: 'the header idempotency-key is missing' }
  await follow({ id, payload: (await json(request)) as RepositoryChanged })
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
  await consumeInOrder(amqpUrl, environment('QUEUE'), follow)
  announceReady()
}
