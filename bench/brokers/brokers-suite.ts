import { createConsumer } from '@txbox/consumer'
import { reasonOf } from '@txbox/core/internal'
import { orderOfTurn } from '../measure/rotation.ts'
import { ratioOf, summarise } from '../measure/statistics.ts'
import type { BenchDatabase } from '../postgres/bench-database.ts'
import { BACKLOG, makeBacklog } from '../postgres/relay-backlog.ts'
import { WHOLE_MESSAGE, type HandRow } from '../postgres/relay-by-hand.ts'
import type { DrainVariant } from '../postgres/relay-drains.ts'
import { handVariant, txboxVariant } from '../postgres/relay-variants.ts'
import { checkpoint } from '../postgres/workspace.ts'
import { ratesBeside } from '../report/rates-table.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import { PREFETCH, type BenchBroker, type OpenBroker } from './bench-broker.ts'
import { kafkaBroker } from './kafka-broker.ts'
import { natsBroker } from './nats-broker.ts'
import { pgBossBroker } from './pg-boss-broker.ts'
import { rabbitmqBroker } from './rabbitmq-broker.ts'
import { redisBroker } from './redis-broker.ts'
import { sqsBroker } from './sqs-broker.ts'
import { inOrderOfKeys } from './work-by-hand.ts'

type BenchPool = ReturnType<BenchDatabase['pool']>

/** A relay into each broker beside loops by hand, and each source beside its bare client and a loop that does the same work. */
export function brokersSuite(database: BenchDatabase): Suite {
  return {
    name: 'brokers',
    async run({ rounds }) {
      const brokers = [
        rabbitmqBroker,
        natsBroker,
        redisBroker,
        kafkaBroker,
        sqsBroker,
        pgBossBroker(database),
      ]
      const targets: Target[] = []
      for (const broker of brokers) {
        const open = await broker.open()
        if (open === undefined) {
          console.log(`\nbrokers: no ${broker.name} found, ${broker.variable} names one: left out`)
          continue
        }
        try {
          targets.push(...(await measureBroker(database, broker, open, rounds)))
        } finally {
          await open.dispose()
        }
      }
      return targets
    },
  }
}

async function measureBroker(
  database: BenchDatabase,
  broker: BenchBroker,
  open: OpenBroker,
  rounds: number,
): Promise<readonly Target[]> {
  const pool = database.pool({ max: 1 })
  try {
    await makeBacklog(pool, broker.messages)
    if (open.topic !== undefined) await pool.query(`update ${BACKLOG} set topic = $1`, [open.topic])
    const relays = await measureRelays(database, pool, broker, open, rounds)
    const relayTitles = {
      bare: 'a loop by hand',
      sameWork: 'the same, in order of the keys',
      txbox: 'relay.drain()',
    }
    const targets = [report(broker, relayTitles, relays, 1)]
    if (open.source === undefined) return targets
    const sources = await measureSources(pool, broker, open, rounds)
    const bound = broker.name === 'RabbitMQ' ? 0.9 : 0.8
    const sourceTitles = {
      bare: 'the bare client',
      sameWork: 'the same work by hand',
      txbox: 'a consumer, no-op',
    }
    return [...targets, report(broker, sourceTitles, sources, bound)]
  } finally {
    await database.close(pool)
  }
}

/** In messages per second, one figure for each round. */
interface Rates {
  readonly bare: number[]
  /** The floor: what the broker and its client leave to anyone who keeps the same promises. */
  readonly sameWork: number[]
  readonly txbox: number[]
}

const VARIANTS = ['bare', 'sameWork', 'txbox'] as const

async function measureRelays(
  database: BenchDatabase,
  pool: BenchPool,
  { name, messages }: BenchBroker,
  open: OpenBroker,
  rounds: number,
): Promise<Rates> {
  const variants = {
    bare: await handVariant(database, pool, messages, 'brokers_by_hand', WHOLE_MESSAGE, () => open.client()),
    sameWork: await handVariant(database, pool, messages, 'brokers_in_order', WHOLE_MESSAGE, async () => {
      const client = await open.client()
      return open.clientKeepsOrder === true ? client : inOrderOfKeys(client)
    }),
    txbox: await txboxVariant(database, pool, messages, 'brokers', () => open.publisher()),
  }
  return interleaved(rounds, messages, {
    async before(who) {
      await open.empty()
      await refill(pool, variants[who])
    },
    async run(who) {
      const { published, end } = await variants[who].drain()
      await end?.()
      const arrived = await open.count()
      if (published === messages && (arrived ?? messages) === messages) return
      throw new Error(`${name}, ${who}: ${published} of ${messages} published, ${arrived} arrived.`)
    },
  })
}

async function measureSources(
  pool: BenchPool,
  { messages }: BenchBroker,
  open: OpenBroker,
  rounds: number,
): Promise<Rates> {
  const { rows } = await pool.query<HandRow>(
    `select seq, ${WHOLE_MESSAGE.columns.join(', ')} from ${BACKLOG} order by seq`,
  )
  const client = await open.client()
  try {
    return await interleaved(rounds, messages, {
      async before() {
        await open.empty()
        for (let n = 0; n < rows.length; n += 1000) await client.publish(rows.slice(n, n + 1000))
      },
      run(who) {
        if (who === 'bare') return open.receiveBare!(messages)
        return who === 'sameWork' ? open.receiveLikeSource!(messages) : drainSource(open, messages)
      },
    })
  } finally {
    await client.close()
  }
}

async function drainSource(open: OpenBroker, messages: number): Promise<void> {
  const finished = Promise.withResolvers<void>()
  let handled = 0
  const consumer = createConsumer({
    source: open.source!(),
    name: 'bench',
    prefetch: PREFETCH,
    handler: async () => undefined,
    deadLetters: { publish: () => Promise.reject(new Error('A message has become a dead letter.')) },
  })
  consumer.on('handled', () => {
    if (++handled === messages) finished.resolve()
  })
  for (const event of ['error', 'retried', 'unavailable'] as const) {
    consumer.on(event, ({ error }) => finished.reject(new Error(reasonOf(error), { cause: error })))
  }
  await consumer.start()
  await finished.promise
  await consumer.stop()
}

/** Rounds of all variants in turn. The first round is the warm-up. */
async function interleaved(
  rounds: number,
  messages: number,
  {
    before,
    run,
  }: {
    readonly before: (who: keyof Rates) => Promise<void>
    readonly run: (who: keyof Rates) => Promise<void>
  },
): Promise<Rates> {
  const rates: Rates = { bare: [], sameWork: [], txbox: [] }
  for (let round = -1; round < rounds; round++) {
    for (const who of orderOfTurn(VARIANTS, round + 1)) {
      await before(who)
      const startedAt = performance.now()
      await run(who)
      const seconds = (performance.now() - startedAt) / 1000
      if (round >= 0) rates[who].push(messages / seconds)
    }
  }
  return rates
}

async function refill(pool: BenchPool, variant: DrainVariant): Promise<void> {
  await pool.query(`truncate ${variant.table}`)
  await checkpoint(pool)
  await variant.fill(pool)
  await pool.query(`vacuum analyze ${variant.table}`)
}

function report(
  { name, messages }: BenchBroker,
  titles: Readonly<Record<keyof Rates, string>>,
  rates: Rates,
  atLeast: number,
): Target {
  const ratio = ratioOf(rates.txbox, rates.bare)
  const besideSameWork = ratioOf(rates.txbox, rates.sameWork)
  console.log(`\nbrokers: ${name}, ${whole(messages)} messages of 500 bytes and 1000 keys`)
  console.log(
    formatTable(
      ['', 'messages/s (min–max)', 'rate ÷ the first (min–max)', 'txbox ÷ this rate (min–max)'],
      VARIANTS.map((variant) => [
        titles[variant],
        wholeSpread(summarise(rates[variant])),
        variant === 'bare' ? '1' : ratioSpread(ratioOf(rates[variant], rates.bare)),
        variant === 'txbox' ? '' : ratioSpread(ratioOf(rates.txbox, rates[variant])),
      ]),
    ),
  )
  return {
    what: `${name}, ${titles.txbox}: rate ÷ ${titles.bare}`,
    bound: { atLeast },
    ratio,
    figures: `${ratesBeside(rates.txbox, 'the other', rates.bare)}; ${besideSameWork.median.toFixed(2)} of the floor`,
  }
}
