import { txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql, SqlRow } from '../database/sql.ts'
import type { Effect } from './history.ts'

/** An answer that arrived whole at the client. */
export interface HttpAnswer {
  readonly service: string
  readonly status: number
  /** The response id; absent in problem details. */
  readonly id: string | undefined
  readonly isReplayed: boolean
  readonly atMs: number
}

/** A request that the client sent again and again until the answer was 2xx. A request may have several calls. */
export interface HttpCall {
  readonly call: string
  readonly path: string
  readonly key: string
  /** The request was made to fail, or to take long. */
  readonly ill: string | undefined
  readonly atMs: number
  /** In the order in which they arrived. Attempts without an answer are not among them. */
  readonly answers: readonly HttpAnswer[]
}

/** An effect of an HTTP request. Its id is the response id, which another call of the handler would not have given. */
export interface HttpEffect extends Effect {
  readonly key: string
  /** When the handler began and ended, in ms since 1970, by the database's clock. */
  readonly beganMs: number
  readonly endedMs: number
}

/** The outcomes of the HTTP requests, as the client and the database know them. */
export interface HttpRecord {
  readonly httpCalls: readonly HttpCall[]
  /** The effects in the last primary. */
  readonly httpEffects: readonly HttpEffect[]
  /** Effects that failovers lost: their requests may have been answered, and may have another effect since. */
  readonly httpLost: readonly HttpEffect[]
  /** One for each claim in the last primary: the response id of the stored response, `undefined` without a response. */
  readonly httpResponses: readonly (string | undefined)[]
}

export function isAnswered({ answers }: Pick<HttpCall, 'answers'>): boolean {
  return answers.some(isAcknowledgment)
}

export function isAcknowledgment({ status }: Pick<HttpAnswer, 'status'>): boolean {
  return status >= 200 && status < 300
}

/** In the order of the effects. */
export async function readHttpEffects(sql: Sql, afterSerial = 0): Promise<readonly HttpEffect[]> {
  const rows = await sql.query(
    `select serial, request_key, response_id, worker, began_ms, ended_ms from chaos_http_effects
     where serial > ? order by serial`,
    [afterSerial],
  )
  return rows.map(httpEffectOf)
}

/** The effects of one request that has more than one; none if there is no such request. */
export async function readHttpTwice(sql: Sql): Promise<readonly HttpEffect[]> {
  const [twice] = await sql.query(
    'select request_key from chaos_http_effects group by request_key having count(*) > 1 limit 1',
  )
  if (twice === undefined) return []
  const rows = await sql.query(
    `select serial, request_key, response_id, worker, began_ms, ended_ms from chaos_http_effects
     where request_key = ? order by serial`,
    [String(twice['request_key'])],
  )
  return rows.map(httpEffectOf)
}

function httpEffectOf(row: SqlRow): HttpEffect {
  return {
    serial: Number(row['serial']),
    id: String(row['response_id']),
    key: String(row['request_key']),
    worker: String(row['worker']),
    beganMs: Number(row['began_ms']),
    endedMs: Number(row['ended_ms']),
  }
}

/** The claims of HTTP requests, by which `@txbox/idempotency-key` knows them. */
const CLAIMS = `consumer = '@http'`
/** The claim of a request under a lease, whose response is beside the lease. */
const LEASED_MARK = '{"leased":true}'

export async function readHttpResponses(engine: Engine, sql: Sql): Promise<HttpRecord['httpResponses']> {
  const rows = await sql.query(`select result from ${txboxTables(engine).inbox} where ${CLAIMS}`)
  return rows
    .filter((row) => row['result'] !== LEASED_MARK)
    .map((row) => responseId(row['result'] as string | null))
}

/** One for each lease of an HTTP request, as in `httpResponses`. */
export async function readLeasedResponses(engine: Engine, sql: Sql): Promise<HttpRecord['httpResponses']> {
  const rows = await sql.query(`select result from ${txboxTables(engine).dedupLeases} where ${CLAIMS}`)
  return rows.map((row) => responseId(row['result'] as string | null))
}

/** The number of claims of HTTP requests that are committed without a response. */
export async function countClaimsWithoutResponse(engine: Engine, sql: Sql): Promise<number> {
  const [row] = await sql.query(
    `select count(*) as n from ${txboxTables(engine).inbox} where ${CLAIMS} and result is null`,
  )
  return Number(row?.['n'])
}

/** The response id in a stored response, whose body is text in the member `b`. */
function responseId(stored: string | null): string | undefined {
  if (stored === null) return undefined
  const { b } = JSON.parse(stored) as { readonly b: string }
  return (JSON.parse(b) as { readonly id: string }).id
}
