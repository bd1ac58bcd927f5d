import { SchemaError } from '@txbox/core'
import type { SqlResult } from '@txbox/sql'
import type { Tables } from './identifiers.ts'
import { textOf } from './literals.ts'
import { MIGRATIONS } from './migrations.gen.ts'
import { engineOf, type ServerTraits } from './server.ts'

/** Runs one statement; throws what the caller wants to see. */
export type RunStatement = (text: string) => Promise<SqlResult>

/** The numbers of the migrations that the tables have had, and what the server is. */
export async function inspect(
  run: RunStatement,
  { migrations }: Pick<Tables, 'migrations'>,
): Promise<{ applied: ReadonlySet<number>; server: ServerTraits }> {
  // MariaDB writes a switch out as ON; as a number it is 1 on both.
  const { rows } = await run(`
select cast(version() as char) as version, cast(@@max_allowed_packet as char) as packet,
  cast(@@autocommit + 0 as char) as autocommit, cast(m.number as char) as number
from (select 1 as one) as o left join ${migrations} as m on true`)
  const [first] = rows
  if (first === undefined) throw new Error('The server gave no answer.')
  const numbers = rows.flatMap(({ number }) => (number === null ? [] : [Number(textOf(number))]))
  return {
    applied: new Set(numbers),
    server: {
      engine: engineOf(textOf(first['version'])),
      // A packet also has a byte that says what it is; the rest is for whatever a proxy in between adds.
      maxStatementBytes: Number(textOf(first['packet'])) - 1024,
      autocommit: textOf(first['autocommit']) === '1',
    },
  }
}

/** @throws {InvalidOptionError} for a server that is refused. */
export async function checkEngine(run: RunStatement): Promise<void> {
  const { rows } = await run('select cast(version() as char) as version')
  engineOf(textOf(rows[0]?.['version']))
}

/** @throws {SchemaError} when the tables are of a later revision than this version of the package knows. */
export function refuseLater(applied: ReadonlySet<number>, prefix: string): void {
  const latest = Math.max(0, ...applied)
  const known = MIGRATIONS.at(-1)!.number
  if (latest <= known) return
  throw new SchemaError(
    `The tables '${prefix}…' are of revision ${latest}; this version of @txbox/mysql knows revisions up to ${known}. ` +
      'Upgrade the package.',
  )
}

/** @throws {SchemaError} when the tables are of an earlier or later revision than this version of the package. */
export async function checkRevision(run: RunStatement, tables: Tables): Promise<ServerTraits> {
  const { applied, server } = await inspect(run, tables)
  refuseLater(applied, tables.prefix)
  const missing = MIGRATIONS.filter((migration) => !applied.has(migration.number))
  if (missing.length === 0) return server
  throw new SchemaError(
    `The tables '${tables.prefix}…' lack ${missing.map((migration) => migration.name).join(', ')}. Run ` +
      "'npx txbox migrate', or call migrate(db).",
  )
}
