import { interleavedRates } from '../measure/interleaved-rates.ts'
import { ratioOf } from '../measure/statistics.ts'
import { formatRates, ratesBeside, type VariantTitle } from '../report/rates-table.ts'
import type { Suite } from '../suite.ts'
import { KYSELY, PG } from '../handles/on-postgres.ts'
import { importLibrary } from '../../test/libraries/library-under-test.ts'
import type { BenchDatabase } from './bench-database.ts'
import { measureLibraries } from './versioning-libraries.ts'
import {
  VERSIONING_VARIANTS,
  schemaOf,
  versioningVariant,
  type VersioningVariantName,
} from './versioning-variants.ts'
import { assertWorkDone, checkpoint, createWorkspace } from './workspace.ts'

const TITLES: Record<VersioningVariantName, VariantTitle<VersioningVariantName>> = {
  bare: { title: 'UPDATE by bare Kysely' },
  versioned: { title: 'updateVersioned', byHand: 'bare' },
  onRoot: { title: 'updateVersioned on a root', byHand: 'bare' },
}

/** Of the libraries that reach the driver's connection, and those that hide it. */
const LIBRARIES = ['drizzle', 'typeorm', 'prisma', 'postgres-js'] as const

/**
 * Compares `updateVersioned` with the same UPDATE by bare Kysely, each in a transaction, since a write to several rows must
 * be rolled back. There is one client: two would meet on a row, and one
 * of them would be refused.
 */
export function versioningSuite(database: BenchDatabase): Suite {
  return {
    name: 'versioning',
    async run(options) {
      console.log('\nversioning: one update of one row by key and version in a transaction, 1 client')
      const pool = database.pool({ max: 1 })
      const names = Object.keys(VERSIONING_VARIANTS) as VersioningVariantName[]
      for (const name of names) {
        await pool.query(`drop schema if exists ${schemaOf(name)} cascade`)
        await createWorkspace(pool, schemaOf(name))
        await pool.query(
          `alter table ${schemaOf(name)}.accounts add column version integer not null default 0`,
        )
      }
      await checkpoint(pool)
      const measured = await interleavedRates(
        names.map((name) => versioningVariant(name, pool)),
        { ...options, clients: 1 },
      )
      for (const name of names) {
        await assertWorkDone(pool, schemaOf(name), { credits: measured[name].transactions })
      }
      console.log(formatRates<VersioningVariantName>(TITLES, measured))
      console.log('\nthe same through every library, beside the same UPDATE by hand')
      const libraries = [PG, KYSELY]
      for (const name of LIBRARIES) libraries.push(await importLibrary(name, 'postgres'))
      const targets = await measureLibraries(database.url, pool, libraries, options)
      await database.close(pool)
      const [versioned, bare] = [measured.versioned.perRound, measured.bare.perRound]
      return [
        {
          what: 'updateVersioned: cost ÷ the same UPDATE by bare Kysely',
          bound: { atMost: 1.05 },
          ratio: ratioOf(bare, versioned),
          figures: ratesBeside(versioned, 'bare', bare),
        },
        ...targets,
      ]
    },
  }
}
