// Takes orders over HTTP. A change and its message commit together; the relay sends the message to billing.
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { rabbitmqPublisher } from '@txbox/rabbitmq'
import { createOutbox, createRelay } from 'txbox'
import { migrate, postgres } from 'txbox/postgres'
import { AMQP_URL, BILLING, PORT, pool, type OrderChanged } from './service.ts'

await migrate(pool, { schema: 'orders' })
await pool.query('create table if not exists orders.carts (id text primary key, cents int, version int)')

const database = postgres({ db: pool, schema: 'orders' })
const outbox = createOutbox<Record<string, OrderChanged>>({ database })
const publisher = rabbitmqPublisher({ url: AMQP_URL, exchange: '' })
await createRelay({ database, publisher }).start()

const save = `insert into orders.carts values ($1, $2, 1)
  on conflict (id) do update set cents = excluded.cents, version = carts.version + 1 returning version`

async function change({ order, cents }: OrderChanged): Promise<number> {
  return database.transact(async (tx) => {
    const { rows } = await tx.query<OrderChanged>(save, [order, cents])
    const { version } = rows[0]!
    await outbox.publish(tx, { topic: BILLING, key: order, payload: { order, cents, version } })
    return version
  })
}

const server = createServer((request, response) => {
  json(request)
    .then((body) => change(body as OrderChanged))
    .then((version) => response.end(`version ${version}`))
    .catch((error: unknown) => response.writeHead(500).end(String(error)))
})
server.listen(Number(PORT), '127.0.0.1', () => process.send?.('ready'))
