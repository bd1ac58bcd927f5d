import { isTxboxError, readableDuration, readableNumber, type Finding } from '@txbox/core'
import type { Tables } from './identifiers.ts'
import type { inspectionStatements } from './inspection-statements.ts'
import { textOf, type Value } from './literals.ts'
import { checkRevision } from './schema-revision.ts'
import { engineOf } from './server.ts'

type Run = (text: string, values?: readonly Value[]) => Promise<readonly Readonly<Record<string, unknown>>[]>
type Statements = ReturnType<typeof inspectionStatements>

/** A payload of 10 MiB in Base64, and the rest of its statement. */
const PACKET_BYTES = 16 * 1_048_576

/** Indexes that a plan of txbox rests on, or that decide which keys are the same. */
const INDEXES = [
  'inbox.PRIMARY',
  'inbox.inbox_expires_at',
  'outbox.PRIMARY',
  'leases.PRIMARY',
  'parked.PRIMARY',
  'parked.parked_due',
  'parked.parked_order',
  'parked.parked_dead',
]

/** Findings about the server and the tables. */
export async function serverFindings(
  run: Run,
  sql: Statements,
  tables: Tables,
  longTransactionMs: number,
): Promise<readonly Finding[]> {
  const findings = [await server(run, sql), ...(await settings(run, sql)), await revision(run, tables)]
  if (findings[0]?.verdict === 'problem' || findings.at(-1)?.verdict === 'problem') return findings
  return [
    ...findings,
    await indexes(run, sql, tables),
    await types(run, sql),
    await order(run, sql),
    await horizon(run, sql, longTransactionMs),
  ]
}

async function server(run: Run, sql: Statements): Promise<Finding> {
  const [row] = await run(sql.version)
  const version = textOf(row?.['version'])
  try {
    const name = engineOf(version) === 'mariadb' ? 'MariaDB' : 'MySQL'
    return { check: 'server', verdict: 'ok', found: `${name} ${version}` }
  } catch (error) {
    if (!isTxboxError(error)) throw error
    return {
      check: 'server',
      verdict: 'problem',
      found: error.message,
      advice: 'Use a server that is supported.',
    }
  }
}

async function settings(run: Run, sql: Statements): Promise<readonly Finding[]> {
  const rows = await run(sql.settings)
  const found = new Map(rows.map((row) => [textOf(row['Variable_name']), textOf(row['Value'])]))
  const isolation = found.get('transaction_isolation') ?? found.get('tx_isolation') ?? 'unknown'
  const readOnly = !/^(off|0)$/i.test(found.get('read_only') ?? 'OFF')
  const flush = found.get('innodb_flush_log_at_trx_commit')
  const packet = Number(found.get('max_allowed_packet'))
  return [
    {
      check: 'writable',
      verdict: readOnly ? 'problem' : 'ok',
      found: `read_only is ${readOnly ? 'on' : 'off'}`,
      advice: readOnly ? 'Connect to the primary.' : undefined,
    },
    {
      check: 'isolation',
      verdict: isolation === 'SERIALIZABLE' ? 'note' : 'ok',
      found: `transactions are ${isolation.toLowerCase().replace('-', ' ')} by default`,
      advice:
        isolation === 'SERIALIZABLE'
          ? 'Every read locks, and deadlocks are frequent: use inbox.run, or retry TransactionConflictError.'
          : undefined,
    },
    {
      check: 'durability',
      verdict: flush === '1' ? 'ok' : 'warning',
      found: `innodb_flush_log_at_trx_commit is ${String(flush)}`,
      advice: flush === '1' ? undefined : 'A crash loses commits that were confirmed. Set it to 1.',
    },
    {
      check: 'packet',
      verdict: packet >= PACKET_BYTES ? 'ok' : 'warning',
      found: `max_allowed_packet is ${readableNumber(packet)} bytes`,
      advice:
        packet >= PACKET_BYTES
          ? undefined
          : 'Payloads of 10 MiB need 16 MiB; larger ones than fit are refused.',
    },
    ...cluster(found),
  ]
}

/** Do several nodes take writes, and what does that change? */
function cluster(settings: ReadonlyMap<string, string>): readonly Finding[] {
  const onePrimary = settings.get('group_replication_single_primary_mode')
  const galera = settings.get('wsrep_on') === 'ON'
  if (onePrimary === 'ON') {
    return [{ check: 'cluster', verdict: 'ok', found: 'this is Group Replication with one primary' }]
  }
  if (!galera && onePrimary !== 'OFF') return []
  return [
    {
      check: 'cluster',
      verdict: 'warning',
      found: galera ? 'this is a Galera cluster' : 'this is Group Replication in multi-primary mode',
      advice:
        'A lock orders nothing between nodes: change a row before you publish. Connect each relay to one node, or messages ' +
        'are published twice.',
    },
  ]
}

async function revision(run: Run, tables: Tables): Promise<Finding> {
  try {
    await checkRevision(async (text) => ({ rows: await run(text), affected: 0 }), tables)
    return { check: 'revision', verdict: 'ok', found: 'the tables are of this revision' }
  } catch (error) {
    if (!isTxboxError(error) || error.code.startsWith('TXBOX_DATABASE_')) throw error
    const later = error.message.includes('Upgrade the package')
    return {
      check: 'revision',
      verdict: 'problem',
      found: error.message.startsWith('The tables') ? error.message : 'there are no tables of txbox here',
      advice: later ? 'Upgrade txbox.' : "Run 'npx txbox migrate'.",
    }
  }
}

async function indexes(run: Run, sql: Statements, { prefix }: Tables): Promise<Finding> {
  const there = new Set((await run(sql.indexes)).map((row) => textOf(row['name'])))
  const missing = INDEXES.filter((index) => !there.has(prefix + index))
  if (missing.length === 0) return { check: 'indexes', verdict: 'ok', found: 'all there' }
  return {
    check: 'indexes',
    verdict: 'problem',
    found: `missing: ${missing.join(', ')}`,
    advice: "Create them as the files do that 'npx txbox migrate --print' writes.",
  }
}

async function types(run: Run, sql: Statements): Promise<Finding> {
  const wrong = await run(sql.tables)
  if (wrong.length === 0)
    return { check: 'tables', verdict: 'ok', found: 'InnoDB, and keys compare byte for byte' }
  return {
    check: 'tables',
    verdict: 'problem',
    found: wrong.map((row) => textOf(row['found'])).join(', '),
    advice:
      'Two keys may count as one, or nothing is rolled back. Bring the tables back to what the migrations made.',
  }
}

async function order(run: Run, sql: Statements): Promise<Finding> {
  const found = await run(sql.triggers)
  if (found.length === 0) return { check: 'order', verdict: 'ok', found: 'the outbox has no trigger' }
  return {
    check: 'order',
    verdict: 'problem',
    found: found.map((row) => `trigger ${textOf(row['name'])}`).join(', '),
    advice: 'Messages of one key may be published out of order. Drop it.',
  }
}

async function horizon(run: Run, sql: Statements, longMs: number): Promise<Finding> {
  const check = 'purge horizon'
  const pinned = await run(sql.horizon, [Math.round(longMs * 1000)]).catch(() => undefined)
  if (pinned === undefined) {
    return {
      check,
      verdict: 'note',
      found: 'not visible',
      advice: 'Grant PROCESS to the user who runs doctor.',
    }
  }
  if (pinned.length === 0)
    return { check, verdict: 'ok', found: `no transaction is older than ${readableDuration(longMs)}` }
  return {
    check,
    verdict: 'warning',
    found: pinned
      .map(
        (row) =>
          `connection ${textOf(row['id'])} for ${readableDuration(Number(textOf(row['age_s'])) * 1000)}`,
      )
      .join('; '),
    advice: 'What was deleted since stays in the tables, and the relay gets slower. End that transaction.',
  }
}
