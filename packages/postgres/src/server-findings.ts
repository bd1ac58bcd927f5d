import { isTxboxError, readableDuration, readableNumber, type Finding } from '@txbox/core'
import type { inspectionStatements } from './inspection-statements.ts'
import { checkRevision } from './schema-revision.ts'

type Run = (text: string, values: readonly unknown[]) => Promise<readonly Readonly<Record<string, unknown>>[]>
type Statements = ReturnType<typeof inspectionStatements>

const OLDEST_VERSION = 150_000

/** Indexes that a plan of txbox rests on, or that decide which keys are the same. */
const INDEXES = [
  'inbox_pkey',
  'inbox_expires_at',
  'outbox_pkey',
  'leases_pkey',
  'parked_pkey',
  'parked_due',
  'parked_order',
  'parked_dead',
]

/** Findings about the server and the tables. `schema` is quoted. */
export async function serverFindings(
  run: Run,
  sql: Statements,
  { schema, longTransactionMs }: { readonly schema: string; readonly longTransactionMs: number },
): Promise<readonly Finding[]> {
  const findings = [...(await settings(run, sql)), await revision(run, schema)]
  if (findings.at(-1)?.verdict === 'problem') return findings
  const name = schema.slice(1, -1).replaceAll('""', '"')
  return [
    ...findings,
    await indexes(run, sql, name),
    await collations(run, sql, name),
    await order(run, sql, name),
    await horizon(run, sql, longTransactionMs),
    await bloat(run, sql, name),
  ]
}

async function settings(run: Run, sql: Statements): Promise<readonly Finding[]> {
  const [row = {}] = await run(sql.settings, [])
  const text = (name: string): string => String(row[name])
  const old = Number(row['version_number']) < OLDEST_VERSION
  const durable = text('fsync') === 'on' && text('synchronous_commit') !== 'off'
  return [
    {
      check: 'server',
      verdict: old ? 'problem' : 'ok',
      found: `PostgreSQL ${text('version')}`,
      advice: old ? 'Upgrade to PostgreSQL 15 or later.' : undefined,
    },
    {
      check: 'writable',
      verdict: text('replica') === 'true' ? 'problem' : 'ok',
      found: text('replica') === 'true' ? 'this is a replica: it takes no writes' : 'this is a primary',
      advice: text('replica') === 'true' ? 'Connect to the primary.' : undefined,
    },
    {
      check: 'isolation',
      verdict: text('isolation') === 'serializable' ? 'note' : 'ok',
      found: `transactions are ${text('isolation')} by default`,
      advice:
        text('isolation') === 'serializable'
          ? 'Any COMMIT may ask for another attempt: use inbox.run, or retry TransactionConflictError.'
          : undefined,
    },
    {
      check: 'durability',
      verdict: durable ? 'ok' : 'warning',
      found: `fsync ${text('fsync')}, synchronous_commit ${text('synchronous_commit')}`,
      advice: durable ? undefined : 'A crash loses commits that were confirmed. Set both to on.',
    },
    {
      check: 'autovacuum',
      verdict: text('autovacuum') === 'on' ? 'ok' : 'warning',
      found: `autovacuum is ${text('autovacuum')}`,
      advice:
        text('autovacuum') === 'on'
          ? undefined
          : 'Turn it on: a queue of deleted rows gets ever slower without.',
    },
  ]
}

async function revision(run: Run, schema: string): Promise<Finding> {
  try {
    await checkRevision(async (text, values) => ({ rows: await run(text, values), affected: 0 }), schema)
    return { check: 'revision', verdict: 'ok', found: 'the tables are of this revision' }
  } catch (error) {
    if (!isTxboxError(error) || error.code !== 'TXBOX_SCHEMA') throw error
    const later = error.message.includes('Upgrade the package')
    return {
      check: 'revision',
      verdict: 'problem',
      found: error.message.startsWith('The tables') ? error.message : 'there are no tables of txbox here',
      advice: later ? 'Upgrade txbox.' : "Run 'npx txbox migrate'.",
    }
  }
}

async function indexes(run: Run, sql: Statements, schema: string): Promise<Finding> {
  const there = new Map((await run(sql.indexes, [schema])).map((row) => [row['name'], row['valid']]))
  const missing = INDEXES.filter((index) => there.get(index) !== 'true')
  if (missing.length === 0) return { check: 'indexes', verdict: 'ok', found: 'all there and valid' }
  return {
    check: 'indexes',
    verdict: 'problem',
    found: `missing or invalid: ${missing.join(', ')}`,
    advice:
      "Drop what is invalid, and run the files that 'npx txbox migrate --print' writes: they are safe to run again.",
  }
}

async function collations(run: Run, sql: Statements, schema: string): Promise<Finding> {
  const wrong = await run(sql.collations, [schema])
  if (wrong.length === 0) return { check: 'collations', verdict: 'ok', found: 'keys compare byte for byte' }
  return {
    check: 'collations',
    verdict: 'problem',
    found: wrong.map((row) => `${String(row['name'])} has collation ${String(row['collation'])}`).join(', '),
    advice: 'Two keys may count as one. Give these columns collate "C" again.',
  }
}

async function order(run: Run, sql: Statements, schema: string): Promise<Finding> {
  const found = await run(sql.order, [schema])
  if (found.length === 0)
    return { check: 'order', verdict: 'ok', found: 'outbox_seq has no cache, outbox has no trigger' }
  return {
    check: 'order',
    verdict: 'problem',
    found: found.map((row) => String(row['found'])).join(', '),
    advice: 'Messages of one key may be published out of order. Set the cache to 1, and drop the trigger.',
  }
}

async function horizon(run: Run, sql: Statements, longMs: number): Promise<Finding> {
  const pinned = await run(sql.horizon, [longMs])
  if (pinned.length === 0)
    return {
      check: 'vacuum horizon',
      verdict: 'ok',
      found: `nobody has pinned it for longer than ${readableDuration(longMs)}`,
    }
  const since = (ms: unknown): string => (ms === null ? '' : ` for ${readableDuration(Number(ms))}`)
  return {
    check: 'vacuum horizon',
    verdict: 'warning',
    found: pinned.map((row) => `${String(row['who'])}${since(row['age_ms'])}`).join('; '),
    advice:
      'What was deleted since stays in the tables, and the relay gets slower. End that transaction, or drop the slot.',
  }
}

async function bloat(run: Run, sql: Statements, schema: string): Promise<Finding> {
  const tables = await run(sql.bloat, [schema])
  if (tables.length === 0) return { check: 'dead rows', verdict: 'ok', found: 'vacuum keeps up' }
  return {
    check: 'dead rows',
    verdict: 'warning',
    found: tables
      .map(
        (row) =>
          `${String(row['name'])}: ${readableNumber(Number(row['dead']))} dead, ${readableNumber(Number(row['live']))} live`,
      )
      .join('; '),
    advice: 'Look at the vacuum horizon, then VACUUM these tables.',
  }
}
