// The receiver: takes webhooks over HTTP, keeps statistics of each repository, and publishes each change.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { createInbox, createOutbox, messageId, type InboxMessage } from 'txbox'
import type { Transaction } from 'kysely'
import { addOnMysql } from './on-mysql.ts'
import { addOnPostgres } from './on-postgres.ts'
import type { ReceiverTables } from './receiver-tables.ts'
import type { RepositoryChanged } from './repository-changed.ts'
import { isPostgres, openDatabase } from './service-database.ts'
import { announceReady, environment } from './supervised.ts'
import { isSignedBy } from './webhook-signature.ts'

/** The fields of a webhook's body that the receiver reads; the body has many more. */
interface Webhook {
  readonly repository: { readonly full_name: string }
}

const secret = environment('WEBHOOK_SECRET')
const databaseUrl = environment('DATABASE_URL')
const { database } = openDatabase<ReceiverTables>(databaseUrl, 12)
const addToRepository = isPostgres(databaseUrl) ? addOnPostgres : addOnMysql

// A webhook that is sent again has the same id, by which the inbox recognizes it.
const inbox = createInbox({ database, consumer: 'repository-statistics', key: messageId() })
const outbox = createOutbox<{ 'repository.changed': RepositoryChanged }>({ database })

/** Runs once for each webhook: its writes and the claim of the inbox commit together or not at all. */
async function count(tx: Transaction<ReceiverTables>, webhook: InboxMessage<Webhook>): Promise<void> {
  const repository = webhook.payload.repository.full_name
  const add = (event: string): 0 | 1 => (webhook.type === event ? 1 : 0)

  // First change the repository's row, which locks it until the commit; then publish. So the events of one repository
  // are published in the order of its changes, however many webhooks are handled at the same time.
  const number = await addToRepository(tx, {
    repository,
    deliveries: 1,
    pushes: add('push'),
    issues: add('issues'),
    pull_requests: add('pull_request'),
  })
  await tx.insertInto('history').values({ repository, number, delivery_id: webhook.id }).execute()

  await outbox.publish(tx, {
    topic: 'repository.changed',
    key: repository,
    payload: { repository, number, deliveryId: webhook.id, event: webhook.type ?? 'unknown' },
  })
}

async function receive(request: IncomingMessage): Promise<{ status: number; answer: string }> {
  const {
    'x-github-delivery': id,
    'x-github-event': type,
    'x-hub-signature-256': signature,
  } = request.headers
  const body = await text(request)
  if (typeof id !== 'string' || typeof type !== 'string') return { status: 400, answer: 'not a webhook' }
  if (!isSignedBy(secret, body, signature)) return { status: 401, answer: 'wrong signature' }

  const outcome = await inbox.run({ id, type, payload: JSON.parse(body) as Webhook }, count)
  // The transaction has committed, so the receiver may answer. A duplicate has its effect already.
  return { status: 200, answer: outcome.status }
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  // Whether or not the transaction has committed, the sender may send the webhook again.
  const { status, answer } = await receive(request).catch((error: unknown) => {
    console.error(error)
    return { status: 500, answer: 'failed' }
  })
  response.writeHead(status, { 'content-type': 'text/plain' }).end(answer)
}

createServer((request, response) => void respond(request, response)).listen(
  Number(environment('PORT')),
  '127.0.0.1',
  announceReady,
)
