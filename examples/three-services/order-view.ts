// A read model that shows the newest state of each order, in whatever order the changes arrive.
import { createServer } from 'node:http'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { Kysely, PostgresDialect } from 'kysely'
import { createInbox } from 'txbox'
import { createConsumer } from 'txbox/consumer'
import { migrate, postgres } from 'txbox/postgres'
import { versionGuard } from 'txbox/versioning'
import { AMQP_URL, PORT, VIEW, pool, type OrderChanged } from './service.ts'

type Tables = { 'view.orders': { id: string; cents: number; version: number } }

const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
await migrate(db, { schema: 'view' })
await pool.query('create table if not exists view.orders (id text primary key, cents int, version int)')

const consumer = createConsumer({
  source: rabbitmqSource<OrderChanged>({
    ...{ url: AMQP_URL, queue: VIEW },
    declare: { type: 'quorum', deadLetterExchange: 'amq.fanout' },
  }),
  inbox: createInbox({ database: postgres({ db, schema: 'view' }), consumer: 'order-view' }),
  guard: versionGuard<Tables, OrderChanged>({
    table: 'view.orders',
    where: ({ payload }) => ({ id: payload.order }),
    version: ({ payload }) => payload.version,
    insert: ({ payload: { order, cents } }) => ({ id: order, cents, version: 0 }),
  }),
  handler: (tx, { payload: { order, cents } }) =>
    tx.updateTable('view.orders').set({ cents }).where('id', '=', order).execute(),
})
await consumer.start()

const ordersQuery = db.selectFrom('view.orders').selectAll().orderBy('id')
const server = createServer((_request, response) => {
  ordersQuery
    .execute()
    .then((orders) => response.end(JSON.stringify(orders)))
    .catch((error: unknown) => response.writeHead(500).end(String(error)))
})
server.listen(Number(PORT), '127.0.0.1', () => process.send?.('ready'))
