import { settingsOf } from '../support/engines/postgres-pool.ts'
import type { LibraryModule } from './library-under-test.ts'
import { overWebSocket, type NeonPool } from './neon.ts'

interface Vercel {
  readonly createPool: (config: object) => NeonPool
  /** A proxy of a pool that it creates at its first use, from the variable POSTGRES_URL. */
  readonly db: object
}

/** The pool of `@vercel/postgres`, which is one of Neon's driver 0.9. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load) => {
  const { createPool, db } = (await load('@vercel/postgres')) as Vercel
  const { neonConfig } = (await load('neon-of-vercel')) as { readonly neonConfig: object }
  process.env['POSTGRES_URL'] ??= 'postgresql://localhost/test'
  return overWebSocket({
    name: "Vercel's pool",
    neonConfig,
    open(options) {
      // createPool takes only addresses of Vercel's pooler.
      const url = new URL(options.url)
      url.searchParams.set('application_name', 'txbox-pooler.test')
      return createPool({ connectionString: url.href, max: options.max, ...settingsOf(options) })
    },
    stray: { "Vercel's pool": (root) => root.db, "Vercel's `db`": () => db },
  })
}
