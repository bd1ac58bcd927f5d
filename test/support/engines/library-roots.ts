import { inject } from 'vitest'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { importLibrary, type LibraryRoot, type LibraryUnderTest } from '../../libraries/library-under-test.ts'
import './provided.ts'
import { numbered } from './postgres-pool.ts'
import { callbackRoot } from './roots.ts'
import type { HandleKind, Root, RootOptions } from './target.ts'

const DRIVERS: readonly string[] = ['pg', 'mysql2', 'kysely']

/** The library of this project, unless the project runs the drivers and Kysely. */
export const libraryUnderTest: LibraryUnderTest | undefined = DRIVERS.includes(inject('library'))
  ? undefined
  : await importLibrary(inject('library'), inject('engine'))

/** The only kind of handle of a project that has a library. */
export const libraryKinds: readonly HandleKind[] | undefined =
  libraryUnderTest === undefined
    ? undefined
    : [
        {
          name: libraryUnderTest.name,
          library: inject('library'),
          driver: libraryUnderTest.driver,
          pipelined: false,
          joinsBegin: libraryUnderTest.joinsBegin ?? false,
          losesConnectionAtBegin: libraryUnderTest.losesConnectionAtBegin ?? false,
          hidesConnection: libraryUnderTest.hidesConnection ?? false,
          endsProcessWhenBroken: libraryUnderTest.endsProcessWhenBroken ?? false,
          extraRoundTrips: libraryUnderTest.extraRoundTrips ?? {
            perCall: 0,
            afterHandler: libraryUnderTest.driver === 'hidden' ? 1 : 0,
          },
        },
      ]

export function libraryRootOn(url: string, options: RootOptions, pglite?: object): Root {
  const engine = inject('engine')
  const { exec, open } = libraryUnderTest!
  const root = open({ url, engine, max: options.max ?? 4, isolation: options.isolation, pglite })
  const { db, libraries } = root
  const { schema } = options
  const database =
    engine === 'postgres'
      ? postgres({ db, libraries, ...(schema !== undefined && { schema }) } as never)
      : mysql({ db, libraries, ...(schema !== undefined && { prefix: schema }) } as never)
  const opened = callbackRoot({
    db,
    database: database as unknown as ConnectedDatabase<TransactionHandle>,
    execOn: (tx, sql, parameters) => exec(tx, engine === 'postgres' ? numbered(sql) : sql, parameters),
    ready: root.ready?.bind(root),
    transact: (work) => root.transact(work),
    close: () => root.close(),
  })
  roots.set(db, root)
  return opened
}

const roots = new WeakMap<object, LibraryRoot>()

/** The library's own root of a root under test. */
export function libraryRoot({ db }: Pick<Root, 'db'>): LibraryRoot {
  const root = roots.get(db)
  if (root === undefined) throw new Error('This root belongs to no library.')
  return root
}
