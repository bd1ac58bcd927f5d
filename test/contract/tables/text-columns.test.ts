import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { Types } from 'mysql2'
import { createConnection } from 'mysql2/promise'
import type { Connection as MysqlConnection } from 'mysql2/promise'
import { Client, types, type Connection, type FieldDef, type Submittable } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const isPostgres = target.engine === 'postgres'
const GOLDEN = path.join(import.meta.dirname, '..', '..', 'golden')

/** The columns of a statement that are not text, with their types. */
type Others = readonly string[]

/** The approved statements of a database, by name. The files of MariaDB replace those of MySQL. */
function approved(): ReadonlyMap<string, string> {
  const databases = { postgres: ['postgres'], mysql: ['mysql'], mariadb: ['mysql', 'mariadb'] }
  const texts = databases[target.engine].flatMap((database) => {
    const cwd = path.join(GOLDEN, database)
    const files = globSync('*/*.sql', { cwd })
    return files.map((file) => [file, readFileSync(path.join(cwd, file), 'utf8')] as const)
  })
  return new Map(texts)
}

/** Of these statements no value is read: any answer, or no error, is the answer. */
const UNREAD = /^(select 1|select pg_catalog\.pg_notify\(\$1, \$2\)|set statement .* for select 1)$/i

/** Commands that a server does not prepare have no columns; the COPY of the relay has a format of its own. */
const WITHOUT_COLUMNS = /^\s*(begin|commit|isolation|release|rollback|savepoint|set|start)\b/i

/** txbox sends these statements to MySQL only: MariaDB limits the wait for a lock in another way. */
const OF_MYSQL =
  /^(inbox\/(inbox\.read-no-wait|lock-wait\.(read|set))|connection\/session\.refused-in-transaction)\.sql$/

/** The end of other statements, whose texts are approved as a whole, too. */
const PART = /^outbox\/outbox\.routed\.sql$/

const statements = [...approved()].filter(
  ([name, sql]) =>
    !UNREAD.test(sql.trim()) &&
    !WITHOUT_COLUMNS.test(sql) &&
    !PART.test(name) &&
    !(target.engine === 'mariadb' && OF_MYSQL.test(name)),
)

test.for(statements)('every column of %s is text', async ([, sql]) => {
  expect(await (isPostgres ? notTextOnPostgres(sql) : notTextOnMysql(sql))).toEqual([])
})

let client: Client | undefined
let connection: MysqlConnection | undefined
beforeAll(async () => {
  if (isPostgres) await (client = new Client(outbox.url())).connect()
  else connection = await createConnection(outbox.url())
})
afterAll(async () => {
  await client?.end()
  await connection?.end()
})

const TEXT: number = types.builtins.TEXT

/** Reads how the server describes the statement, which does not run. */
function notTextOnPostgres(sql: string): Promise<Others> {
  const { promise, resolve, reject } = Promise.withResolvers<Others>()
  let others: Others = []
  const description = {
    submit(protocol: Connection) {
      protocol.parse({ text: sql, name: '', types: [] }, true)
      protocol.describe({ type: 'S', name: '' }, true)
      protocol.sync()
    },
    handleRowDescription({ fields }: { fields: readonly FieldDef[] }) {
      others = fields
        .filter(({ dataTypeID }) => dataTypeID !== TEXT)
        .map(({ name, dataTypeID }) => `${name}: type ${dataTypeID}`)
    },
    handleError: reject,
    handleReadyForQuery: () => resolve(others),
  }
  client!.query(description as unknown as Submittable)
  return promise
}

/** The types of MySQL's protocol for text and bytes of all lengths, and for a column that is always null. */
const TEXT_TYPES = new Set([
  'VARCHAR',
  'VAR_STRING',
  'STRING',
  'TINY_BLOB',
  'MEDIUM_BLOB',
  'LONG_BLOB',
  'BLOB',
  'NULL',
])

interface Described {
  readonly statement: { readonly columns: readonly { readonly name: string; readonly columnType: number }[] }
  close(): Promise<void>
}

async function notTextOnMysql(sql: string): Promise<Others> {
  const database = new URL(outbox.url()).pathname.slice(1)
  const text = sql.replaceAll('`golden`', `\`${database}\``)
  const described = (await connection!.prepare(text)) as unknown as Described
  await described.close()
  return described.statement.columns.flatMap(({ name, columnType }) => {
    const type = Types[columnType as never] as string
    return TEXT_TYPES.has(type) ? [] : [`${name}: type ${type}`]
  })
}
