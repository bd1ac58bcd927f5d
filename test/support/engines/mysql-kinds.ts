import type { HandleKind } from './target.ts'

/** The flags and the styles are distributed over the kinds, so that every rule is tested with each of them. */
export const mysqlKinds: readonly HandleKind[] = [
  { name: 'Kysely transaction', library: 'kysely', driver: 'kysely', pipelined: false, joinsBegin: false },
  { name: 'mysql2 connection', library: 'mysql2', driver: 'mysql2', pipelined: false, joinsBegin: false },
  {
    name: 'mysql2 callback connection without FOUND_ROWS',
    library: 'mysql2',
    driver: 'mysql2',
    pipelined: false,
    joinsBegin: false,
  },
]
