import { days, type Database, type TransactionHandle } from '@txbox/core'
import { uuidV7 } from '@txbox/core/internal'
import { createInbox } from '@txbox/inbox'
import type { LibraryRoot, LibraryUnderTest } from '../../test/libraries/library-under-test.ts'
import { interleavedRates, type RateOptions } from '../measure/interleaved-rates.ts'
import { ratioOf, summarise } from '../measure/statistics.ts'
import { formatTable, ratioSpread, whole } from '../report/table.ts'
import type { Suite } from '../suite.ts'

/** A library without the parts that only tests use. */
export type BenchLibrary = Omit<LibraryUnderTest, 'nested'>

/** A library that is measured. */
export interface MeasuredLibrary {
  readonly library: BenchLibrary
  /** Whether txbox has the driver's connection, so that the target applies. */
  readonly reachesDriver: boolean
}

/** The statements of the work on one database. `tables` is a schema and a dot, or a prefix. */
export interface Work {
  /** With two parameters, the consumer and the key. */
  readonly claim: (tables: string) => string
  /** With one parameter, the account. */
  readonly credit: (tables: string) => string
  readonly databaseOf: (workspace: string) => Database
  /** The name of tables in a workspace. */
  readonly tablesOf: (workspace: string) => string
}

export interface HandlesOn {
  readonly url: string
  readonly engine: 'postgres' | 'mysql' | 'mariadb'
  readonly libraries: () => Promise<readonly MeasuredLibrary[]>
  readonly work: Work
  readonly createWorkspace: (workspace: string) => Promise<void>
  readonly assertWorkDone: (workspace: string, transactions: number) => Promise<void>
  readonly anyAccount: () => number
  readonly close: () => Promise<void>
}

const AT_MOST = 1.05

/** `inbox.process` in the transactions of each library, against the same claim by hand through the same library. */
export function handlesSuite(prepare: () => HandlesOn): Suite {
  return {
    name: 'handles',
    async run(options) {
      const on = prepare()
      console.log('\nhandles: one update of one row in a transaction, 1 client, by library')
      const rows: string[][] = []
      for (const [number, { library, reachesDriver }] of (await on.libraries()).entries()) {
        const rates = await measure(on, library, number, options)
        const ratio = ratioOf(rates.byHand.perRound, rates.process.perRound)
        const cpu = ratioOf(rates.process.cpuPerRound, rates.byHand.cpuPerRound)
        rows.push([
          library.name,
          whole(summarise(rates.byHand.perRound).median),
          whole(summarise(rates.process.perRound).median),
          ratioSpread(ratio),
          ratioSpread(ratioOf(rates.byHand.perRound, rates.again.perRound)),
          reachesDriver ? (ratio.median <= AT_MOST ? 'yes' : 'NO') : '–',
          whole(summarise(rates.byHand.cpuPerRound).median),
          whole(summarise(rates.process.cpuPerRound).median),
          ratioSpread(cpu),
        ])
      }
      await on.close()
      console.log(
        formatTable(
          [
            ...['', 'by hand/s', 'process/s', 'cost ÷ by hand (min–max)', 'by hand again', `≤ ${AT_MOST}`],
            ...['CPU µs by hand', 'process', 'CPU ÷ by hand (min–max)'],
          ],
          rows,
        ),
      )
      return []
    },
  }
}

/** `again` is the same as `byHand`, on tables and a pool of its own: how far it is from 1 is what a ratio is uncertain by. */
type Side = 'byHand' | 'again' | 'process'

async function measure(
  on: HandlesOn,
  library: BenchLibrary,
  number: number,
  options: Pick<RateOptions, 'rounds' | 'secondsPerRound'>,
): ReturnType<typeof interleavedRates<Side>> {
  const { url, engine } = on
  const sides = ['byHand', 'again', 'process'] as const
  // Each side has a pool of its own: txbox watches a connection from its first use on.
  const roots = sides.map(() => library.open({ url, engine, max: 1, isolation: undefined }))
  const workspaces = sides.map((side) => `handles_${number}_${side.toLowerCase()}`)
  for (const workspace of workspaces) await on.createWorkspace(workspace)
  for (const root of roots) await root.ready?.()
  const variants = sides.map((name, n) => ({
    name,
    transaction: (name === 'process' ? processed : byHand)(on, library, roots[n]!, workspaces[n]!),
  }))
  const rates = await interleavedRates<Side>(variants, { ...options, clients: 1 })
  for (const [n, side] of sides.entries()) await on.assertWorkDone(workspaces[n]!, rates[side].transactions)
  await Promise.all(roots.map((root) => root.close()))
  return rates
}

function byHand(
  { work, anyAccount }: HandlesOn,
  { exec }: BenchLibrary,
  root: LibraryRoot,
  workspace: string,
): () => Promise<void> {
  const [claim, credit] = [work.claim(work.tablesOf(workspace)), work.credit(work.tablesOf(workspace))]
  return () =>
    root.transact(async (tx) => {
      await exec(tx, claim, ['billing', uuidV7()])
      await exec(tx, credit, [anyAccount()])
    })
}

function processed(
  { work, anyAccount }: HandlesOn,
  { exec }: BenchLibrary,
  root: LibraryRoot,
  workspace: string,
): () => Promise<void> {
  const credit = work.credit(work.tablesOf(workspace))
  const database = work.databaseOf(workspace)
  const inbox = createInbox({ database, consumer: 'billing', retentionMs: days(7) })
  return () =>
    root.transact(async (tx) => {
      const { status } = await inbox.process(tx as TransactionHandle, { id: uuidV7() }, async (own) => {
        await exec(own, credit, [anyAccount()])
      })
      if (status !== 'processed') throw new Error(`A new message came out as '${status}'.`)
    })
}
