/*
 * PostgreSQL sends all statements of a settlement in one flight, with COMMIT. MySQL and MariaDB lock rows first, and send one
 * statement after the other.
 */
import type { LeaseLostError } from '@txbox/core'
import type {
  Lease,
  LocalAcceptance,
  LocalRefusal,
  LocalRow,
  LocalSettlement,
  LocalShard,
} from '@txbox/core/ports'
import {
  SETTLING,
  assertNone,
  deniedSettlement,
  leaseLost,
  refused as verdictOf,
  waiting,
  withStorableTexts,
  type Row,
  type UnacceptedRow,
} from '@txbox/sql/stores'
import type { Statement, StatementRoot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { UNTRANSLATABLE, hasCode } from '../connection/errors.ts'
import { rowsOf, textArray } from '../connection/integer-arrays.ts'
import { runAtReadCommitted, runTogether } from '../connection/run-alone.ts'
import { fence } from '../relay/relay-outbox.ts'
import { columnsOf } from '../relay/relay-verdicts.ts'
import type { localParkedStatements } from './local-parked-statements.ts'
import { LEASE_LOST } from './held-lease-statements.ts'
import type { localStatements } from './local-statements.ts'

const NO_PRIVILEGE = '42501'

interface Statements {
  readonly waiting: ReturnType<typeof localStatements>
  readonly parked: ReturnType<typeof localParkedStatements>
}

interface Verdict extends UnacceptedRow {
  readonly unhandled: boolean
}

/** One part of a settlement: a statement, and the rows that it is about. */
interface Part extends Statement {
  readonly rows: readonly LocalRow[]
  readonly in: LocalRow['in']
}

/**
 * Changes outside of the transactions of handlers. Each is one short transaction of all its statements, the row of the lease
 * being locked last.
 */
export class LocalSettlements {
  readonly #sql: Statements
  readonly #source: StatementRoot

  constructor(sql: Statements, source: StatementRoot) {
    this.#sql = sql
    this.#source = source
  }

  settle(
    lease: Lease,
    at: LocalShard,
    { accepted, refused, behind }: LocalSettlement,
  ): Promise<readonly LocalRow[]> {
    const { waiting: outbox, parked } = this.#sql
    const parkedAway = [
      ...refused.filter(({ row }) => row.in === 'waiting').map(verdict),
      ...behind.map((row) => ({ ...waiting({ row, suspect: false }), unhandled: false })),
    ]
    const kept = refused.filter(({ row }) => row.in === 'parked').map(verdict)
    return withStorableTexts(
      (ascii) =>
        this.#change(lease, at, [
          this.#part(
            lease,
            at,
            outbox.settle,
            accepted.filter((row) => row.in === 'waiting'),
            'waiting',
          ),
          this.#part(
            lease,
            at,
            parked.settle,
            accepted.filter((row) => row.in === 'parked'),
            'parked',
          ),
          this.#verdicts(lease, at, outbox.park, parkedAway, ascii, 'waiting'),
          this.#verdicts(lease, at, parked.keep, kept, ascii, 'parked'),
        ]),
      (error) => hasCode(error, UNTRANSLATABLE),
    )
  }

  /** See `LocalStore.acceptTogether`. */
  async acceptTogether(acceptances: readonly LocalAcceptance[]): Promise<readonly (readonly LocalRow[])[]> {
    const [first] = acceptances
    if (first === undefined) return []
    const { waiting } = this.#sql
    const leases = leasesOf(acceptances)
    const [numbers, stamps] = rowsOf(acceptances.flatMap(({ rows }) => rows))
    const shards = acceptances.flatMap(({ at, rows }) => rows.map(() => at.shard))
    const settle = {
      text: waiting.settleTogether,
      values: [
        ...leases,
        first.at.consumer,
        textArray(acceptances.map(({ at }) => String(at.shard))),
        textArray(shards.map(String)),
        numbers,
        stamps,
      ],
    }
    const hold = { text: waiting.holdTogether, values: leases }
    const [settled] = await this.#run([settle, hold], () => leaseLost(first.lease))
    const results = new Map(settled!.map((row) => [columns.number(row, 'shard'), row]))
    const left: (readonly LocalRow[])[] = []
    for (const { lease, at, rows } of acceptances) {
      const missing = missingOf(results.get(at.shard), { lease, rows, in: 'waiting' })
      left.push(missing.length === 0 ? [] : await this.#remaining(at, 'waiting', missing))
    }
    return left
  }

  suspect(lease: Lease, at: LocalShard, rows: readonly LocalRow[]): Promise<readonly LocalRow[]> {
    const { waiting: outbox, parked } = this.#sql
    return this.#change(lease, at, [
      this.#part(
        lease,
        at,
        outbox.suspect,
        rows.filter((row) => row.in === 'waiting'),
        'waiting',
      ),
      this.#part(
        lease,
        at,
        parked.suspect,
        rows.filter((row) => row.in === 'parked'),
        'parked',
      ),
    ])
  }

  /** Makes parked messages wait behind their predecessors. */
  async follow(lease: Lease, at: LocalShard, places: readonly [string, string]): Promise<void> {
    await this.run(lease, [{ text: this.#sql.parked.follow, values: [...scope(lease, at), ...places] }])
  }

  /**
   * Runs statements in one transaction, and fails if the lease is not held at its end.
   *
   * @throws {LeaseLostError} when the lease has expired or has another term. Nothing was changed.
   */
  async run(lease: Lease, statements: readonly Statement[]): Promise<readonly (readonly Row[])[]> {
    const hold = { text: this.#sql.waiting.hold, values: fence(lease) }
    return this.#run([...statements, hold], () => leaseLost(lease))
  }

  async #run(
    statements: readonly Statement[],
    lost: () => LeaseLostError,
  ): Promise<readonly (readonly Row[])[]> {
    try {
      const results = await runTogether(this.#source, SETTLING, ({ commitWith }) => commitWith(statements))
      return results.map(({ rows }) => rows)
    } catch (error) {
      if (error instanceof Error && error.message.includes(LEASE_LOST)) throw lost()
      if (!hasCode(error, NO_PRIVILEGE)) throw error
      const advice = 'Grant the role of the consumer the privileges of docs/privileges/postgres.sql.'
      throw deniedSettlement(error, advice)
    }
  }

  /** @returns the rows that still exist and were not changed, because another transaction has locked them. */
  async #change(
    lease: Lease,
    at: LocalShard,
    given: readonly (Part | undefined)[],
  ): Promise<readonly LocalRow[]> {
    const parts = given.filter((part) => part !== undefined)
    if (parts.length === 0) return []
    const results = await this.run(lease, parts)
    const missing: { readonly part: Part; readonly rows: readonly LocalRow[] }[] = []
    for (const [index, part] of parts.entries()) {
      const rows = missingOf(results[index]![0], { lease, rows: part.rows, in: part.in })
      if (rows.length > 0) missing.push({ part, rows })
    }
    const left: LocalRow[] = []
    for (const { part, rows } of missing) left.push(...(await this.#remaining(at, part.in, rows)))
    return left
  }

  async #remaining(
    { consumer, shard }: LocalShard,
    where: LocalRow['in'],
    rows: readonly LocalRow[],
  ): Promise<readonly LocalRow[]> {
    const [text, values] =
      where === 'waiting'
        ? [this.#sql.waiting.remaining, [consumer, shard, ...rowsOf(rows)]]
        : [this.#sql.parked.remainingRows, rowsOf(rows)]
    const found = await runAtReadCommitted(this.#source, SETTLING, text, values)
    const existing = new Set(found.rows.map((row) => columns.text(row, 'seq')))
    return rows.filter(({ seq }) => existing.has(String(seq)))
  }

  #part(
    lease: Lease,
    at: LocalShard,
    text: string,
    rows: readonly LocalRow[],
    where: LocalRow['in'],
  ): Part | undefined {
    if (rows.length === 0) return undefined
    return { text, values: [...scope(lease, at), ...rowsOf(rows)], rows, in: where }
  }

  #verdicts(
    lease: Lease,
    at: LocalShard,
    text: string,
    verdicts: readonly Verdict[],
    ascii: boolean,
    where: LocalRow['in'],
  ): Part | undefined {
    if (verdicts.length === 0) return undefined
    const flags = verdicts.map(({ unhandled }) => unhandled)
    const values = [...scope(lease, at), ...columnsOf(verdicts, ascii), flags]
    return { text, values, rows: verdicts.map(({ row }) => row as LocalRow), in: where }
  }
}

const KEEPERS = { keepers: 'A row-level security policy, a trigger or a rule', user: 'role' }

/** The first five values of the statements that change rows. */
export function scope(lease: Lease, { consumer, shard }: LocalShard): readonly unknown[] {
  return [...fence(lease), consumer, shard]
}

/** The first three values of the statements on several shards. */
function leasesOf(acceptances: readonly LocalAcceptance[]): readonly unknown[] {
  const leases = acceptances.map(({ lease }) => lease)
  return [
    leases.map(({ name }) => name),
    leases.map(({ owner }) => owner),
    textArray(leases.map(({ term }) => term)),
  ]
}

/**
 * @param result what the statement on the rows has answered.
 * @returns the rows that were not changed.
 * @throws {LeaseLostError} when the lease was not held when the statement began, although it was when the transaction ended.
 * @throws {SettlementError} when something keeps the rows.
 */
function missingOf(
  result: Row | undefined,
  { lease, rows, in: where }: Pick<Part, 'rows' | 'in'> & { readonly lease: Lease },
): readonly LocalRow[] {
  if (result === undefined) throw leaseLost(lease)
  const done = numbersOf(result, 'done')
  const kept = numbersOf(result, 'kept')
  assertNone(kept.size, rows.length, where === 'waiting' ? 'in local_outbox' : 'in local_parked', KEEPERS)
  return rows.filter(({ seq }) => !done.has(String(seq)))
}

function verdict(refusal: LocalRefusal): Verdict {
  return { ...verdictOf(refusal), unhandled: refusal.unhandled }
}

function numbersOf(row: Row, name: string): ReadonlySet<string> {
  return new Set(columns.optionalText(row, name)?.split(','))
}
