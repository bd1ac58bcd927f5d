import type { TransactionHandle } from '@txbox/core'
import { postgres } from '@txbox/postgres'
import { createVersioning } from '@txbox/versioning/sql'
import type { Pool } from 'pg'
import type { LibraryRoot } from '../../test/libraries/library-under-test.ts'
import type { BenchLibrary } from '../handles/handles-suite.ts'
import { interleavedRates, type RateOptions } from '../measure/interleaved-rates.ts'
import { ratioOf, summarise } from '../measure/statistics.ts'
import type { Target } from '../report/target.ts'
import { formatTable, ratioSpread, whole } from '../report/table.ts'
import { anyAccount, assertWorkDone, checkpoint, createWorkspace } from './workspace.ts'

const AT_MOST = 1.1

/**
 * `again` is the same as `byHand`, on tables and a pool of its own: how far it is from 1 is what a ratio is uncertain by. `floor`
 * sends by hand the statement that txbox sends, which also returns the version.
 */
const SIDES = ['byHand', 'again', 'floor', 'versioned'] as const
type Side = (typeof SIDES)[number]

/** Knows the versions of the rows in one schema. */
class Accounts {
  readonly schema: string
  readonly #versions = new Map<number, number>()

  constructor(schema: string) {
    this.schema = schema
  }

  /** Runs an update of a row, which must bring the row from `version` to the next one, and its balance to the same number. */
  async update(run: (id: number, version: number) => Promise<void>): Promise<void> {
    const id = anyAccount()
    const version = this.#versions.get(id) ?? 0
    await run(id, version)
    this.#versions.set(id, version + 1)
  }
}

/** Compares `createVersioning` with the same UPDATE by hand through the same library. */
export async function measureLibraries(
  url: string,
  pool: Pool,
  libraries: readonly BenchLibrary[],
  options: Pick<RateOptions, 'rounds' | 'secondsPerRound'>,
): Promise<readonly Target[]> {
  const targets: Target[] = []
  const rows: string[][] = []
  for (const [number, library] of libraries.entries()) {
    const rates = await measure(url, pool, library, number, options)
    const ratio = ratioOf(rates.byHand.perRound, rates.versioned.perRound)
    const medians = SIDES.map((side) => whole(summarise(rates[side].perRound).median))
    rows.push([
      ...[library.name, medians[0]!, medians[3]!, ratioSpread(ratio)],
      ratioSpread(ratioOf(rates.byHand.perRound, rates.floor.perRound)),
      ratioSpread(ratioOf(rates.byHand.perRound, rates.again.perRound)),
      ratioSpread(ratioOf(rates.versioned.cpuPerRound, rates.byHand.cpuPerRound)),
    ])
    targets.push({
      what: `createVersioning with ${library.name}: cost ÷ the same UPDATE by hand`,
      bound: { atMost: AT_MOST },
      ratio,
      figures: `${medians[3]} vs by hand ${medians[0]} a second`,
    })
  }
  console.log(
    formatTable(
      [
        '',
        'by hand/s',
        'versioned/s',
        'cost ÷ by hand (min–max)',
        'the same statement by hand',
        'by hand again',
        'CPU ÷ by hand (min–max)',
      ],
      rows,
    ),
  )
  return targets
}

async function measure(
  url: string,
  pool: Pool,
  library: BenchLibrary,
  number: number,
  options: Pick<RateOptions, 'rounds' | 'secondsPerRound'>,
): ReturnType<typeof interleavedRates<Side>> {
  const roots = SIDES.map(() => library.open({ url, engine: 'postgres', max: 1, isolation: undefined }))
  const accounts = SIDES.map((side) => new Accounts(`versioning_${number}_${side.toLowerCase()}`))
  for (const { schema } of accounts) {
    await createWorkspace(pool, schema)
    await pool.query(`alter table ${schema}.accounts add column version integer not null default 0`)
  }
  await checkpoint(pool)
  for (const root of roots) await root.ready?.()
  const variants = SIDES.map((name, n) => ({
    name,
    transaction: TRANSACTIONS[name](library, roots[n]!, accounts[n]!),
  }))
  const rates = await interleavedRates<Side>(variants, { ...options, clients: 1 })
  for (const [n, side] of SIDES.entries())
    await assertWorkDone(pool, accounts[n]!.schema, { credits: rates[side].transactions })
  await Promise.all(roots.map((root) => root.close()))
  return rates
}

function byHand(library: BenchLibrary, root: LibraryRoot, accounts: Accounts): () => Promise<void> {
  return updating(library, root, accounts, '')
}

function floor(library: BenchLibrary, root: LibraryRoot, accounts: Accounts): () => Promise<void> {
  return updating(library, root, accounts, ' returning version::text as found')
}

function updating(
  { exec }: BenchLibrary,
  root: LibraryRoot,
  accounts: Accounts,
  returning: string,
): () => Promise<void> {
  const text = `update ${accounts.schema}.accounts set balance = $1, version = $2 where id = $3 and version = $4${returning}`
  return () =>
    accounts.update((id, version) =>
      root.transact(async (tx) => void (await exec(tx, text, [version + 1, version + 1, id, version]))),
    )
}

function versioned(_: BenchLibrary, root: LibraryRoot, accounts: Accounts): () => Promise<void> {
  const { updateVersioned } = createVersioning({ database: postgres() })
  const table = `${accounts.schema}.accounts`
  return () =>
    accounts.update((id, expected) =>
      root.transact(async (tx) => {
        const options = { where: { id }, expected, set: { balance: expected + 1 } }
        await updateVersioned(tx as TransactionHandle, table, options)
      }),
    )
}

const TRANSACTIONS = { byHand, again: byHand, floor, versioned } as const
