/* MySQL and MariaDB can have problems with packets and clusters; PostgreSQL with vacuum and sequences. */
import { isTxboxError } from '@txbox/core'
import type { Finding } from '@txbox/core/ports'
import { readableDuration, readableNumber } from '@txbox/core/internal'
import {
  durabilityFinding,
  horizonFinding,
  isolationFinding,
  judged,
  listed,
  writableFinding,
  type Row,
} from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import type { Tables } from '../connection/identifiers.ts'
import type { inspectionStatements } from './inspection-statements.ts'
import { microseconds, type Value } from '../connection/literals.ts'
import { KEY_LOCKS } from '../outbox/outbox-statements.ts'
import { engineOf } from '../connection/server.ts'

type Run = (text: string, values?: readonly Value[]) => Promise<readonly Row[]>
type Statements = ReturnType<typeof inspectionStatements>

/** The size of a statement with a payload of 10 MiB in Base64. */
const PACKET_BYTES = 16 * 1_048_576

/** Indexes on which a query plan of txbox relies, or that decide which keys are equal. */
const INDEXES = [
  'inbox.PRIMARY',
  'inbox.inbox_expires_at',
  'dedup_leases.PRIMARY',
  'dedup_leases.dedup_leases_expires_at',
  'outbox.PRIMARY',
  'key_locks.PRIMARY',
  'leases.PRIMARY',
  'parked.PRIMARY',
  'parked.parked_due',
  'parked.parked_order',
  'parked.parked_dead',
  'parked.parked_due_since',
  'queue.PRIMARY',
  'queue.queue_due',
  'queue.queue_order',
  'queue.queue_flight',
  'queue.queue_dead',
  'queue.queue_id',
  'queue.queue_due_since',
  'local_outbox.PRIMARY',
  'local_parked.PRIMARY',
  'local_parked.local_parked_due',
  'local_parked.local_parked_order',
  'local_parked.local_parked_unhandled',
  'local_parked.local_parked_dead',
  'local_parked.local_parked_id',
  'local_parked.local_parked_due_since',
  'subscriptions.PRIMARY',
]

/** Checks tables of the right revision. */
export async function tableFindings(
  run: Run,
  sql: Statements,
  tables: Tables,
  longTransactionMs: number,
): Promise<readonly Finding[]> {
  return [
    await indexes(run, sql, tables),
    await types(run, sql),
    await order(run, sql),
    await keyLocks(run, sql),
    await horizon(run, sql, longTransactionMs),
  ]
}

async function server(run: Run, sql: Statements): Promise<Finding> {
  const [row] = await run(sql.version)
  const version = columns.text(row, 'version')
  try {
    const name = engineOf(version) === 'mariadb' ? 'MariaDB' : 'MySQL'
    return { check: 'server', verdict: 'ok', found: `${name} ${version}` }
  } catch (error) {
    if (!isTxboxError(error)) throw error
    return {
      check: 'server',
      verdict: 'problem',
      found: error.message,
      advice: 'Use a supported server.',
    }
  }
}

export async function serverFindings(run: Run, sql: Statements): Promise<readonly Finding[]> {
  const rows = await run(sql.settings)
  const found = new Map(rows.map((row) => [columns.text(row, 'Variable_name'), columns.text(row, 'Value')]))
  const isolation = found.get('transaction_isolation') ?? found.get('tx_isolation') ?? 'unknown'
  const isReadOnly = !/^(off|0)$/i.test(found.get('read_only') ?? 'OFF')
  const flush = found.get('innodb_flush_log_at_trx_commit')
  const packet = Number(found.get('max_allowed_packet'))
  return [
    await server(run, sql),
    writableFinding(`read_only is ${isReadOnly ? 'on' : 'off'}`, isReadOnly),
    isolationFinding(
      isolation.toLowerCase().replace('-', ' '),
      'Every read locks, and deadlocks are frequent: use inbox.run, or retry TransactionConflictError.',
    ),
    durabilityFinding(`innodb_flush_log_at_trx_commit is ${String(flush)}`, flush === '1', 'Set it to 1.'),
    judged(
      'packet',
      `max_allowed_packet is ${readableNumber(packet)} bytes`,
      !(packet >= PACKET_BYTES) && {
        verdict: 'warning',
        advice: 'Payloads of 10 MiB need 16 MiB; payloads that do not fit are refused.',
      },
    ),
    ...cluster(found),
  ]
}

/** Reports a cluster in which several nodes accept writes. */
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
        'A lock does not order transactions on different nodes: change a row before you publish. Connect each relay to one node, or messages ' +
        'are published twice.',
    },
  ]
}

async function indexes(run: Run, sql: Statements, { prefix }: Tables): Promise<Finding> {
  const existing = new Set((await run(sql.indexes)).map((row) => columns.text(row, 'name')))
  const missing = INDEXES.filter((index) => !existing.has(prefix + index))
  return listed('indexes', missing, {
    fine: 'all there',
    verdict: 'problem',
    prefix: 'missing: ',
    advice: "Create them with the files that 'npx txbox migrate --print' writes.",
  })
}

async function types(run: Run, sql: Statements): Promise<Finding> {
  const wrong = await run(sql.tables)
  const texts = wrong.map((row) => columns.text(row, 'found'))
  return listed('tables', texts, {
    fine: 'InnoDB, and keys compare byte for byte',
    verdict: 'problem',
    advice:
      'Two keys may count as one, or changes are not rolled back. Restore the tables to the state that the migrations created.',
  })
}

async function order(run: Run, sql: Statements): Promise<Finding> {
  const found = await run(sql.triggers)
  const texts = found.map((row) => `trigger ${columns.text(row, 'name')} of ${columns.text(row, 'owner')}`)
  return listed('order', texts, {
    fine: 'outboxes and queue have no trigger',
    verdict: 'problem',
    advice: 'Messages of one key may be published or received out of order. Drop the trigger.',
  })
}

/**
 * If a row is missing in the table of key locks, outboxes with `lockKeys` cannot publish messages whose keys use that
 * row.
 */
async function keyLocks(run: Run, sql: Statements): Promise<Finding> {
  const [row] = await run(sql.keyLocks)
  const count = columns.number(row, 'n')
  return judged(
    'key locks',
    `${readableNumber(count)} of ${readableNumber(KEY_LOCKS)} rows`,
    count !== KEY_LOCKS && {
      verdict: 'problem',
      advice:
        "Messages of the keys of the missing rows are refused by outboxes with lockKeys. Run the file 0009_key_locks that 'npx txbox migrate --print' writes.",
    },
  )
}

async function horizon(run: Run, sql: Statements, longMs: number): Promise<Finding> {
  const check = 'purge horizon'
  const pinned = await run(sql.horizon, [microseconds(longMs)]).catch(() => undefined)
  if (pinned === undefined) {
    const advice = 'Grant PROCESS to the user who runs doctor.'
    return judged(check, 'not visible', { verdict: 'note', advice })
  }
  const texts = pinned.map((row) => {
    const age = readableDuration(columns.number(row, 'age_s') * 1000)
    return `connection ${columns.text(row, 'id')} for ${age}`
  })
  const fine = `no transaction is older than ${readableDuration(longMs)}`
  return horizonFinding(check, fine, texts, 'End that transaction.')
}
