import * as ofKysely from '@txbox/versioning'
import { createVersioning, type SameKind, type Version } from '@txbox/versioning/sql'
import type { InboxMessage, TransactionHandle } from '@txbox/core'
import { attemptsOnConflict } from '@txbox/core/internal'
import { describe } from 'vitest'
import {
  ISOLATIONS,
  kindsOfTier,
  useRoot,
  type HandleKind,
  type Isolation,
  type Root,
  type Row,
  type Target,
} from '../engines/target.ts'
import { inTransaction, kyselyOf } from './versioned-tables.ts'

type Options = Readonly<Record<string, unknown>>
type Where = Readonly<Record<string, unknown>>

/** The functions of versioning, whose first argument is a transaction, or the subject's `db` for one of its own. */
interface Functions {
  updateVersioned<V extends Version>(
    tx: object,
    table: string,
    options: Options & { readonly where: Where; readonly expected: V; readonly set: object },
  ): Promise<{ version: SameKind<V> }>
  deleteVersioned(tx: object, table: string, options: Options): Promise<void>
  applyVersion<V extends Version>(
    tx: object,
    table: string,
    options: Options & { readonly where: Where; readonly from: V; readonly to: V; readonly set: object },
  ): Promise<{ status: 'applied' | 'stale'; version: SameKind<V> }>
  applyIfNewer(tx: object, table: string, options: Options): Promise<{ status: 'applied' | 'stale' }>
  transition(tx: object, table: string, options: Options): Promise<{ status: 'applied' | 'already' }>
  updateMerged<R = Row>(
    tx: object,
    table: string,
    options: Options & { readonly where: Where; readonly merge: (row: R) => object },
  ): Promise<{ version: Version; attempts: number }>
}
type Call<P> = (tx: object, message: InboxMessage<P>) => Promise<'apply' | 'stale'>
type Guard<P> = Call<P> & { readonly rowOf: (message: InboxMessage<P>) => string }

type Half = 'Kysely' | 'createVersioning'

/** The transactions that a root opens for one call are tried again, as those of Kysely's functions are. */
const ATTEMPTS = 3

/** One of the two halves of versioning: the functions that take Kysely, or those that take the transactions of every library. */
export class VersioningUnderTest implements Functions {
  readonly half: Half
  readonly isolation: Isolation
  readonly root: Root
  /** Where a root looks for the tables of other names. */
  readonly #schema: string | undefined
  readonly #target: Target
  // The root is opened before the first test, so each function is looked up when it is called.
  readonly updateVersioned: Functions['updateVersioned'] = (...call) =>
    this.#functions.updateVersioned(...call)
  readonly deleteVersioned: Functions['deleteVersioned'] = (...call) =>
    this.#functions.deleteVersioned(...call)
  readonly applyVersion: Functions['applyVersion'] = (...call) => this.#functions.applyVersion(...call)
  readonly applyIfNewer: Functions['applyIfNewer'] = (...call) => this.#functions.applyIfNewer(...call)
  readonly transition: Functions['transition'] = (...call) => this.#functions.transition(...call)
  readonly updateMerged: Functions['updateMerged'] = (...call) => this.#functions.updateMerged(...call)

  constructor(half: Half, target: Target, root: Root, isolation: Isolation, schema?: string) {
    this.#schema = schema
    this.half = half
    this.isolation = isolation
    this.root = root
    this.#target = target
  }

  /** Stands for a transaction of the call's own. */
  get db(): object {
    return this.half === 'Kysely' ? this.#kysely : this.root.db
  }

  get #kysely(): ReturnType<typeof kyselyOf> {
    const db = kyselyOf(this.#target, this.root)
    return this.#schema === undefined ? db : db.withSchema(this.#schema)
  }

  /** The name of a table, as this half takes it. */
  table(name: string): string {
    return this.half === 'Kysely' || this.#schema === undefined ? name : `${this.#schema}.${name}`
  }

  get #functions(): Functions {
    return this.half === 'Kysely' ? (ofKysely as unknown as Functions) : this.#ofEveryLibrary()
  }

  versionGuard<P>(options: Options): Guard<P> {
    if (this.half === 'Kysely') return ofKysely.versionGuard(options as never) as Guard<P>
    // The root is opened before the first test: until then, the options are checked without it.
    const { rowOf } = createVersioning({ database: this.#target.detached() }).versionGuard<P>(
      options as never,
    )
    const guard: Call<P> = (tx, message) =>
      createVersioning({ database: this.root.database }).versionGuard<P>(options as never)(tx, message)
    return Object.assign(guard, { rowOf })
  }

  /** Runs one transaction. */
  inTransaction<R>(work: (tx: TransactionHandle) => Promise<R>): Promise<R> {
    if (this.half === 'createVersioning') return this.root.database.transact(work)
    return inTransaction(this.#kysely, this.isolation, (tx) => work(tx as never))
  }

  #ofEveryLibrary(): Functions {
    const { root } = this
    const { database } = root
    const versioning = createVersioning({ database })
    const alone =
      (call: (tx: never, table: string, options: never) => Promise<unknown>) =>
      (tx: object, table: string, options: unknown): Promise<unknown> =>
        tx === root.db
          ? attemptsOnConflict(
              () => database.transact((own) => call(own as never, table, options as never)),
              { isConflict: isReportedByDatabase },
              { attempts: ATTEMPTS },
            )
          : call(tx as never, table, options as never)
    return {
      updateVersioned: alone(versioning.updateVersioned),
      deleteVersioned: alone(versioning.deleteVersioned),
      applyVersion: alone(versioning.applyVersion),
      applyIfNewer: alone(versioning.applyIfNewer),
      transition: alone(versioning.transition),
      updateMerged: versioning.updateMerged,
    } as unknown as Functions
  }
}

function isReportedByDatabase(error: unknown): boolean {
  const { code, cause } = Object(error) as { code?: unknown; cause?: unknown }
  return code === 'TXBOX_TRANSACTION_CONFLICT' && cause !== undefined
}

type Tests = (subject: VersioningUnderTest, kind: HandleKind) => void

/**
 * The same tests with Kysely's functions, and with those of `createVersioning` on the kinds of handle of this tier, at every
 * isolation level.
 */
export function onEachHalf(target: Target, tests: Tests, levels: readonly Isolation[] = ISOLATIONS): void {
  const kysely = target.kinds.filter(({ library }) => library === 'kysely').slice(0, 1)
  for (const isolation of levels) {
    for (const kind of kysely) onHalf('Kysely', target, kind, isolation, tests)
    for (const kind of kindsOfTier(target)) onHalf('createVersioning', target, kind, isolation, tests)
  }
}

/** The same, for rules for which the level makes no difference. */
export function onEachHalfAtOneLevel(target: Target, tests: Tests): void {
  onEachHalf(target, tests, ISOLATIONS.slice(0, 1))
}

function onHalf(half: Half, target: Target, kind: HandleKind, isolation: Isolation, tests: Tests): void {
  describe(`${half}, ${kind.name}, ${isolation}`, () => {
    const root = useRoot(target, kind, { isolation, max: 8 })
    tests(new VersioningUnderTest(half, target, root, isolation), kind)
  })
}

type During = (work: (subject: VersioningUnderTest) => Promise<void>) => Promise<void>

/**
 * The roots with unusual settings. On PostgreSQL, names of tables may be looked up in another schema, so that tables are named
 * with theirs.
 */
export function onOddRoots(target: Target, tests: (odd: string, half: Half, during: During) => void): void {
  const schema = target.engine === 'postgres' ? 'public' : undefined
  for (const odd of target.oddities) {
    for (const half of ['Kysely', 'createVersioning'] as const) {
      tests(odd, half, async (work) => {
        const root = target.openOdd(odd)
        try {
          await root.ready?.()
          await work(new VersioningUnderTest(half, target, root, 'read committed', schema))
        } finally {
          await root.close()
        }
      })
    }
  }
}
