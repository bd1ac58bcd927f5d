/* PostgreSQL can have problems with vacuum and sequences; MySQL and MariaDB with packets and clusters. */
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
import type { inspectionStatements } from './inspection-statements.ts'

type Run = (text: string, values?: readonly unknown[]) => Promise<readonly Row[]>
type Statements = ReturnType<typeof inspectionStatements>

const OLDEST_VERSION = 150_000

/** Indexes on which a query plan of txbox relies, or that decide which keys are equal. */
const INDEXES = [
  'inbox_pkey',
  'inbox_expires_at',
  'dedup_leases_pkey',
  'dedup_leases_expires_at',
  'outbox_pkey',
  'leases_pkey',
  'parked_pkey',
  'parked_due',
  'parked_order',
  'parked_dead',
  'parked_due_since',
  'queue_pkey',
  'queue_due',
  'queue_order',
  'queue_flight',
  'queue_dead',
  'queue_dead_id',
  'queue_due_since',
  'local_outbox_pkey',
  'local_parked_pkey',
  'local_parked_due',
  'local_parked_order',
  'local_parked_unhandled',
  'local_parked_dead',
  'local_parked_due_since',
  'subscriptions_pkey',
]

/** Checks tables of the right revision. `schema` is quoted. */
export async function tableFindings(
  run: Run,
  sql: Statements,
  schema: string,
  longTransactionMs: number,
): Promise<readonly Finding[]> {
  const name = schema.slice(1, -1).replaceAll('""', '"')
  return [
    await indexes(run, sql, name),
    await collations(run, sql, name),
    await order(run, sql, name),
    await horizon(run, sql, longTransactionMs),
    await bloat(run, sql, name),
  ]
}

export async function serverFindings(run: Run, sql: Statements): Promise<readonly Finding[]> {
  const [row] = await run(sql.settings)
  const text = (name: string): string => columns.text(row, name)
  const isOld = columns.number(row, 'version_number') < OLDEST_VERSION
  const isReplica = columns.flag(row, 'replica')
  const isDurable = text('fsync') === 'on' && text('synchronous_commit') !== 'off'
  const vacuums = text('autovacuum') === 'on'
  return [
    judged(
      'server',
      `PostgreSQL ${text('version')}`,
      isOld && { verdict: 'problem', advice: 'Upgrade to PostgreSQL 15 or later.' },
    ),
    writableFinding(
      isReplica ? 'this is a replica, which accepts no writes' : 'this is a primary',
      isReplica,
    ),
    isolationFinding(
      text('isolation'),
      'Any COMMIT may ask for another attempt: use inbox.run, or retry TransactionConflictError.',
    ),
    durabilityFinding(
      `fsync ${text('fsync')}, synchronous_commit ${text('synchronous_commit')}`,
      isDurable,
      'Set both to on.',
    ),
    judged(
      'autovacuum',
      `autovacuum is ${text('autovacuum')}`,
      !vacuums && {
        verdict: 'warning',
        advice: 'Turn it on: without autovacuum, the tables of a queue become slower and slower.',
      },
    ),
    judged(
      'notify',
      `max_prepared_transactions is ${text('prepared')}`,
      text('prepared') !== '0' && {
        verdict: 'warning',
        advice:
          'By default, transactions do not notify of new messages, which are found by polling: PREPARE TRANSACTION refuses a ' +
          'transaction that notifies. Set it to 0 if nobody prepares transactions, or set notify: true where nobody does.',
      },
    ),
  ]
}

async function indexes(run: Run, sql: Statements, schema: string): Promise<Finding> {
  const valid = (await run(sql.indexes, [schema])).filter((row) => columns.flag(row, 'valid'))
  const names = new Set(valid.map((row) => columns.text(row, 'name')))
  const missing = INDEXES.filter((index) => !names.has(index))
  return listed('indexes', missing, {
    fine: 'all indexes exist and are valid',
    verdict: 'problem',
    prefix: 'missing or invalid: ',
    advice:
      "Drop invalid indexes, and run the files that 'npx txbox migrate --print' writes: they are safe to run again.",
  })
}

async function collations(run: Run, sql: Statements, schema: string): Promise<Finding> {
  const wrong = await run(sql.collations, [schema])
  const texts = wrong.map(
    (row) => `${columns.text(row, 'name')} has collation ${columns.text(row, 'collation')}`,
  )
  return listed('collations', texts, {
    fine: 'keys compare byte for byte',
    verdict: 'problem',
    advice: 'Two keys may count as one. Give these columns collate "C" again.',
  })
}

async function order(run: Run, sql: Statements, schema: string): Promise<Finding> {
  const found = await run(sql.order, [schema])
  const texts = found.map((row) => columns.text(row, 'found'))
  return listed('order', texts, {
    fine: 'the sequences have no cache, outboxes and queue have no trigger',
    verdict: 'problem',
    advice:
      'Messages of one key may be published or received out of order. Set the cache to 1, and drop the trigger.',
  })
}

async function horizon(run: Run, sql: Statements, longMs: number): Promise<Finding> {
  const pinned = await run(sql.horizon, [longMs])
  const texts = pinned.map((row) => {
    const age = columns.optionalText(row, 'age_ms')
    return columns.text(row, 'who') + (age === undefined ? '' : ` for ${readableDuration(Number(age))}`)
  })
  const fine = `nothing has pinned it for longer than ${readableDuration(longMs)}`
  return horizonFinding('vacuum horizon', fine, texts, 'End that transaction, or drop the slot.')
}

async function bloat(run: Run, sql: Statements, schema: string): Promise<Finding> {
  const rows = (row: Row, name: string): string => readableNumber(columns.number(row, name))
  const tables = await run(sql.bloat, [schema])
  const texts = tables.map(
    (row) => `${columns.text(row, 'name')}: ${rows(row, 'dead')} dead, ${rows(row, 'live')} live`,
  )
  return listed('dead rows', texts, {
    fine: 'vacuum keeps up',
    verdict: 'warning',
    separator: '; ',
    advice: 'Check the vacuum horizon, and then VACUUM these tables.',
  })
}
