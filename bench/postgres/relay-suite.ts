import { ratioOf, summarise } from '../measure/statistics.ts'
import { ratesBeside } from '../report/rates-table.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { graphileWorkerVariant } from './graphile-worker-variant.ts'
import { pgBossVariant } from './pg-boss-variant.ts'
import { makeBacklog } from './relay-backlog.ts'
import { BARE_TEXT, WHOLE_MESSAGE } from './relay-by-hand.ts'
import { interleavedDrains, type Drains } from './relay-drains.ts'
import { handVariant, idleOrderedPublisher, idlePublisher, txboxVariant } from './relay-variants.ts'
import { transactionalOutboxVariant } from './transactional-outbox-variant.ts'

const TITLES = {
  byHand: 'by hand, one loop',
  byHandBare: 'by hand, text only and without headers',
  txbox: 'relay.drain()',
  txboxOrdered: "relay.drain(), publisher of ordering 'per-key'",
  pgBoss: 'pg-boss',
  graphileWorker: 'Graphile Worker',
  transactionalOutbox: 'pg-transactional-outbox, polling',
}

type OwnName = 'byHand' | 'byHandBare' | 'txbox' | 'txboxOrdered'
type PeerName = 'pgBoss' | 'graphileWorker' | 'transactionalOutbox'

/** This variant searches the whole backlog for its next messages: with the usual number a drain would take minutes. */
const TRANSACTIONAL_OUTBOX_MESSAGES = 5000

/** A drain of a million messages takes long, above all while an old transaction is open. */
const MOST_LONG_ROUNDS = 3

interface Measured {
  readonly rounds: number
  readonly messages: number
  readonly pinnedHorizon: boolean
}

/** Compares the relay with a loop by hand and with other products; the publisher does nothing. */
export function relaySuite(database: BenchDatabase): Suite {
  return {
    name: 'relay',
    async run({ rounds, full }) {
      const messages = 100_000
      const drains = await measurePeers(database, { rounds, messages, pinnedHorizon: false })
      const targets = drainTargets(drains)
      if (!full) return targets
      const longRounds = Math.min(rounds, MOST_LONG_ROUNDS)
      await measureOwn(database, { rounds, messages, pinnedHorizon: true })
      const free = await measureOwn(database, {
        rounds: longRounds,
        messages: 1_000_000,
        pinnedHorizon: false,
      })
      const pinned = await measureOwn(database, {
        rounds: longRounds,
        messages: 1_000_000,
        pinnedHorizon: true,
      })
      return [...targets, pinnedTarget(pinned, free)]
    },
  }
}

async function measurePeers(
  database: BenchDatabase,
  options: Measured,
): Promise<Readonly<Record<OwnName | PeerName, Drains>>> {
  const pool = database.pool({ max: 1 })
  const { messages } = options
  await makeBacklog(pool, messages)
  const variants = [
    ...(await ownVariants(database, pool, messages)),
    await pgBossVariant(database, pool, messages),
    await graphileWorkerVariant(database, pool, messages),
    await transactionalOutboxVariant(database, pool, TRANSACTIONAL_OUTBOX_MESSAGES),
  ]
  announce(options, `; pg-transactional-outbox ${whole(TRANSACTIONAL_OUTBOX_MESSAGES)} only`)
  const measured = await interleavedDrains(database, pool, variants, options)
  printDrains(measured)
  await database.close(pool)
  return measured
}

async function measureOwn(
  database: BenchDatabase,
  options: Measured,
): Promise<Readonly<Record<OwnName, Drains>>> {
  const pool = database.pool({ max: 1 })
  await makeBacklog(pool, options.messages)
  const variants = await ownVariants(database, pool, options.messages)
  announce(options)
  const measured = await interleavedDrains(database, pool, variants, options)
  printDrains(measured)
  await database.close(pool)
  return measured
}

async function ownVariants(
  database: BenchDatabase,
  pool: ReturnType<BenchDatabase['pool']>,
  messages: number,
) {
  return [
    await handVariant(database, pool, messages, 'byHand', WHOLE_MESSAGE),
    await handVariant(database, pool, messages, 'byHandBare', BARE_TEXT),
    await txboxVariant(database, pool, messages, 'txbox', () => idlePublisher),
    await txboxVariant(database, pool, messages, 'txboxOrdered', () => idleOrderedPublisher),
  ]
}

function announce({ messages, rounds, pinnedHorizon }: Measured, more = ''): void {
  console.log(
    `\nrelay: draining ${whole(messages)} messages of 500 bytes and 1000 keys into a publisher that does ` +
      `nothing (pool of 6; by hand one client${more}), ${rounds} rounds` +
      (pinnedHorizon ? ', vacuum horizon pinned' : ''),
  )
}

function printDrains<N extends keyof typeof TITLES>(measured: Readonly<Record<N | 'byHand', Drains>>): void {
  console.log(
    formatTable(
      [
        '',
        'messages/s (min–max)',
        'rate ÷ by hand (min–max)',
        'WAL bytes: store + relay + vacuum',
        'dead rows',
      ],
      (Object.keys(measured) as N[]).map((name) => {
        const drains = measured[name]
        const median = (samples: readonly number[]): string => whole(summarise(samples).median)
        return [
          TITLES[name],
          wholeSpread(summarise(drains.rates)),
          ratioSpread(ratioOf(drains.rates, measured.byHand.rates)),
          `${median(drains.storeBytes)} + ${median(drains.relayBytes)} + ${median(drains.vacuumBytes)}`,
          summarise(drains.deadRows).median.toFixed(3),
        ]
      }),
    ),
  )
}

function drainTargets(drains: Readonly<Record<OwnName | PeerName, Drains>>): readonly Target[] {
  const peers = [drains.pgBoss, drains.graphileWorker, drains.transactionalOutbox].map(({ rates }) => rates)
  const best = peers[0]!.map((_, round) => Math.max(...peers.map((rates) => rates[round]!)))
  const { storeBytes, relayBytes, vacuumBytes } = drains.txbox
  const bytes = summarise(
    storeBytes.map((stored, round) => stored + relayBytes[round]! + vacuumBytes[round]!),
  )
  return [
    {
      what: 'relay: drain rate ÷ loop by hand',
      bound: { atLeast: 0.8 },
      ratio: ratioOf(drains.txbox.rates, drains.byHand.rates),
      figures: ratesBeside(drains.txbox.rates, 'by hand', drains.byHand.rates),
    },
    {
      what: 'relay: drain rate ÷ best of the peers',
      bound: { atLeast: 3 },
      ratio: ratioOf(drains.txbox.rates, best),
      figures: ratesBeside(drains.txbox.rates, 'the best', best),
    },
    {
      what: 'relay: WAL a message of 500 bytes, in kB',
      bound: { atMost: 1.1 },
      ratio: { median: bytes.median / 1000, min: bytes.min / 1000, max: bytes.max / 1000 },
      figures: 'stored, relayed and vacuumed',
    },
  ]
}

function pinnedTarget(
  pinned: Readonly<Record<OwnName, Drains>>,
  free: Readonly<Record<OwnName, Drains>>,
): Target {
  return {
    what: 'relay: a million, horizon pinned ÷ not pinned',
    bound: { atLeast: 0.8 },
    ratio: ratioOf(pinned.txbox.rates, free.txbox.rates),
    figures: ratesBeside(pinned.txbox.rates, 'not pinned', free.txbox.rates),
  }
}
