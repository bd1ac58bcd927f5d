import type { Inbox, InboxMessage } from '@txbox/inbox'
import type { Kysely, Transaction } from 'kysely'
import type { ConsumerTables } from './database-pool.ts'
import type { Worker } from './worker.ts'
import type { Change } from './worker-protocol.ts'

/** The parts that a consumer by hand and a `createConsumer` share. */
export interface ConsumerParts {
  readonly worker: Worker
  readonly db: Kysely<ConsumerTables>
  readonly inbox: Inbox<Transaction<ConsumerTables>>
  readonly effect: (tx: Transaction<ConsumerTables>, message: InboxMessage<Change>) => Promise<void>
}
