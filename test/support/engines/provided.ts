/** The values that the main process passes to the test files: the database under test, and where the servers are. */
import 'vitest'
import type { Tier } from '../tiers/tier.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The database under test. */
    engine: 'postgres' | 'mysql' | 'mariadb'
    /** The tier, which selects the tests of each rule: see `tier.ts`. */
    tier: Tier
    /** The library with whose handles every rule is tested; `test:all` uses the others, too. */
    library: string
    /** The level of the rules for which isolation makes no difference, in the quick tier. */
    isolation: 'read committed' | 'repeatable read' | 'server default'
    /** The servers that this project needs, by name: the database under test first. */
    needs: string[]
    /** The connection URLs of the servers, by name. */
    servers: Record<string, string>
    /** Servers that were not found, with advice. If there are any, the project is left out. */
    missing: string[]
    /** Whether a missing server is accepted, even with CI=true. */
    optional: boolean
    /** The server is a MariaDB that has `innodb_snapshot_isolation`: from 10.6.18, and from 2024 in later series. */
    hasSnapshotIsolation: boolean
    /** The kind of queues of SQS under test, in the projects for one kind. */
    queues: 'fifo' | 'standard'
    /** The seed of the fuzz tests, and how many times the cases of a short run they take. */
    fuzz: { readonly seed: number; readonly factor: number }
  }
}
