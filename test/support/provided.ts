/** What the main process tells the test files: which database they are on, and where the servers are. */
import 'vitest'
import type { Tier } from './tier.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The database under test. */
    engine: 'postgres' | 'mysql' | 'mariadb'
    /** Which tests of each rule run: see `tier.ts`. */
    tier: Tier
    /** The library whose handles every rule is run with; `test:all` takes the others, too. */
    library: string
    /** The level of the rules for which isolation makes no difference, in the quick tier. */
    isolation: 'read committed' | 'repeatable read' | 'server default'
    /** The servers that this project needs, by name: the database under test first. */
    needs: string[]
    /** Where they are: connection URLs by name. */
    servers: Record<string, string>
    /** Servers that are nowhere, with what to do about it. Not empty: the project is left out. */
    missing: string[]
    /** A server that is nowhere is no failure, with CI=true either. */
    optional: boolean
    /** The server is a MariaDB that has `innodb_snapshot_isolation`: from 10.6.18, and from 2024 in later series. */
    hasSnapshotIsolation: boolean
    /** The seed of the fuzz tests, and how many times the cases of a short run they take. */
    fuzz: { readonly seed: number; readonly factor: number }
  }
}
