import { migrate, postgres } from '@txbox/postgres'
import { rabbitmqPublisher } from '@txbox/rabbitmq'
import { latencyByDefault } from '../latency/by-default.ts'
import { peerWaiters } from '../latency/peer-waiters.ts'
import { txboxWaiters, type MakeDatabase } from '../latency/txbox-waiters.ts'
import { orderOfTurn } from '../measure/rotation.ts'
import { summarise } from '../measure/statistics.ts'
import { formatTable, hundredthsSpread } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { RABBITMQ_URL, makeQueue } from './bench-queue.ts'
import { commitToBrokerLatency, type Latency, type LatencyOptions } from './commit-to-broker-latency.ts'
import { idleCpu } from './relay-idle.ts'
import { idlePublisher } from './relay-variants.ts'

const MESSAGES_PER_SECOND = 100
/** A round of the usual length has too few messages for a 99th percentile. */
const SECONDS_FACTOR = 5
const IDLE_SECONDS = 10

const TITLES = {
  notify: "wakeup: 'notify', to a publisher that does nothing",
  poll: "wakeup: 'poll', to the same",
  handedOver: "wakeup: 'notify', to rabbitmqPublisher",
  confirmed: 'the same, to the confirm of a quorum queue',
}

/** One figure for each round. */
type Measured = Readonly<Record<keyof typeof TITLES, Latency[]>>

/** The time from the answer to COMMIT until a message reaches the broker, and the cost of an idle relay. */
export function latencySuite(database: BenchDatabase): Suite {
  return {
    name: 'latency',
    async run({ rounds, secondsPerRound }) {
      const seconds = secondsPerRound * SECONDS_FACTOR
      console.log(
        `\nlatency: from the answer to COMMIT to the broker, ${MESSAGES_PER_SECOND} messages a second with random gaps, ` +
          `${rounds} rounds of ${seconds} s`,
      )
      const measured = await measureInTurns(database, { rounds, seconds })
      printLatencies(measured)
      const idle = await idleCpu(database, IDLE_SECONDS)
      console.log(`a relay without work takes ${(100 * idle).toFixed(2)} % of a core in its process`)
      const byDefault = await latencyByDefault(
        { waiters: txboxWaiters(databaseOn(database)), peers: peerWaiters(database) },
        { rounds, seconds },
        { firstP50: 3, firstP99: 20, steadyP50: 15, idle: 1 },
      )
      return [...targetsOf(measured, idle), ...byDefault]
    },
  }
}

function databaseOn(database: BenchDatabase): MakeDatabase {
  return async (schema, connections) => {
    const [waiting, sending] = [database.pool({ max: connections }), database.pool({ max: 4 })]
    await migrate(waiting, { schema })
    return {
      waiting: postgres({ db: waiting, schema }),
      sending: postgres({ db: sending, schema }),
      async close() {
        await database.close(waiting)
        await database.close(sending)
      },
    }
  }
}

async function measureInTurns(
  database: BenchDatabase,
  { rounds, seconds }: { readonly rounds: number; readonly seconds: number },
): Promise<Measured> {
  const measured: Measured = { notify: [], poll: [], handedOver: [], confirmed: [] }
  const queue = await makeQueue()
  if (queue === undefined) console.log('no RabbitMQ found, at RABBITMQ_URL or 127.0.0.1:5672: left out')
  const load = { messagesPerSecond: MESSAGES_PER_SECOND, seconds }
  const measure = async (wakeup: LatencyOptions['wakeup'], into: Latency[]): Promise<void> => {
    const options = { ...load, wakeup, publisher: idlePublisher, topic: 'orders' }
    into.push((await commitToBrokerLatency(database, options)).handedOver)
  }
  const variants = [
    () => measure('notify', measured.notify),
    () => measure('poll', measured.poll),
    async () => {
      if (queue === undefined) return
      const publisher = rabbitmqPublisher({ url: RABBITMQ_URL, exchange: '' })
      const options = { ...load, wakeup: 'notify' as const, publisher, topic: queue.name }
      const { handedOver, confirmed } = await commitToBrokerLatency(database, options)
      measured.handedOver.push(handedOver)
      measured.confirmed.push(confirmed)
    },
  ]
  try {
    for (let round = 0; round < rounds; round++) {
      for (const variant of orderOfTurn(variants, round)) await variant()
    }
  } finally {
    await queue?.dispose()
  }
  return measured
}

function printLatencies(measured: Measured): void {
  const names = (Object.keys(TITLES) as (keyof Measured)[]).filter((name) => measured[name].length > 0)
  const spread = (name: keyof Measured, column: 'p50Ms' | 'p99Ms' | 'maxMs'): string =>
    hundredthsSpread(summarise(measured[name].map((latency) => latency[column])))
  console.log(
    formatTable(
      ['', 'p50 ms (min–max)', 'p99 ms (min–max)', 'worst ms (min–max)'],
      names.map((name) => [
        TITLES[name],
        spread(name, 'p50Ms'),
        spread(name, 'p99Ms'),
        spread(name, 'maxMs'),
      ]),
    ),
  )
}

function targetsOf({ notify, poll }: Measured, idle: number): readonly Target[] {
  const figures = `${MESSAGES_PER_SECOND} messages a second`
  const of = (what: string, atMost: number, samples: readonly number[], from = figures): Target => ({
    what: `latency: ${what}`,
    bound: { atMost },
    ratio: summarise(samples),
    figures: from,
  })
  return [
    of(
      "'notify', p50 in ms",
      3,
      notify.map(({ p50Ms }) => p50Ms),
    ),
    of(
      "'notify', p99 in ms",
      15,
      notify.map(({ p99Ms }) => p99Ms),
    ),
    of(
      'polling, p50 in ms',
      30,
      poll.map(({ p50Ms }) => p50Ms),
    ),
    of('without work, % of a core', 2, [100 * idle], 'polling, as rarely as it does'),
  ]
}
