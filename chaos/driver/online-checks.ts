import { setTimeout as pause } from 'node:timers/promises'
import { checkKills } from '../check/checks.ts'
import { checkOrder, checkOwners } from '../check/copy-checks.ts'
import { readKills } from '../check/gather-evidence.ts'
import {
  readClaimsWithoutEffect,
  readGone,
  readLeaseChanges,
  readNumbered,
  readStoredTwice,
  readUnfenced,
  textOf,
} from '../check/history.ts'
import type { StuckKey } from '../check/queue-history.ts'
import { ofKey, type Violation } from '../check/violation.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import { CLIENT } from '../servers/database-engine.ts'
import { MOST_CONNECTIONS } from '../workers/limits.ts'
import type { Fleet } from './fleet.ts'
import type { HttpLog } from './http-log.ts'
import type { Losses } from './losses.ts'
import { OnlineHttpChecks } from './online-http-checks.ts'
import { OnlineLocalChecks } from './online-local-checks.ts'
import { OnlineQueueChecks } from './online-queue-checks.ts'
import type { Recorder } from './recorder.ts'

/** The time in ms that a message which has left the outbox may take through the broker to the recorder. */
const THROUGH_BROKER_MS = 20_000
/** Rows of the ledger that are newer than the last row of the look this long ago are examined again. */
const LOOK_BACK_LOOKS = 20
const MOST_RSS_BYTES = 500 * 1024 * 1024

interface Subject {
  readonly engine: Engine
  readonly url: () => string
  readonly recorder: Recorder
  readonly httpLog: HttpLog
  readonly chargeLog: string
  readonly fleet: Fleet
  readonly killLog: string
  readonly losses: Losses
  readonly leaseMs: number
  /** Stuck keys of the queue that were found so far: no receiver would look at them. */
  readonly stuckKeys: () => readonly StuckKey[]
}

/** The violations of the first check and of the others. The others do not run if the first one finds the sought violation. */
export async function unlessSought(
  early: Violation | undefined,
  isSought: (violation: Violation) => boolean,
  rest: () => Promise<readonly (Violation | undefined)[]>,
): Promise<readonly Violation[]> {
  if (early !== undefined && isSought(early)) return [early]
  return [early, ...(await rest())].filter((violation) => violation !== undefined)
}

/** The checks that are made in each quiet time, so that a run ends soon after the fault that broke something. */
export class OnlineChecks {
  readonly #subject: Subject
  readonly #queue: OnlineQueueChecks
  readonly #local: OnlineLocalChecks
  readonly #http: OnlineHttpChecks
  /** The last serial numbers of the ledger at earlier looks. */
  #serials: number[] = []
  #copiesSeen = 0
  #orderSeen = 0
  /** The last place of each key and epoch that was published. */
  readonly #places = new Map<string, number>()
  readonly resources: string[] = []
  readonly #reportedLost = new Set<string>()

  constructor(subject: Subject) {
    this.#subject = subject
    this.#queue = new OnlineQueueChecks(subject.engine, subject.url, subject.stuckKeys)
    this.#local = new OnlineLocalChecks(subject.engine, subject.url)
    this.#http = new OnlineHttpChecks(subject)
  }

  /** After a failover the server assigns serial numbers again. */
  forget(): void {
    this.#serials = []
    this.#queue.forget()
    this.#local.forget()
    this.#http.forget()
  }

  /**
   * Runs all checks, unless the first check finds the sought violation: another violation must not hide the sought
   * violation.
   *
   * @returns at most one violation of each check.
   */
  look(isSought: (violation: Violation) => boolean): Promise<readonly Violation[]> {
    return unlessSought(this.#disordered(), isSought, async () => [
      ...(await this.#queue.look()),
      ...(await this.#local.look()),
      ...(await this.#http.look()),
      ...(await Promise.all([
        this.#lost(),
        this.#numbered(),
        this.#storedTwice(),
        this.#twice(),
        this.#claimOnly(),
        this.#unfenced(),
        this.#strangers(),
      ])),
      this.killed(),
    ])
  }

  /** A message that is neither in the outbox nor parked must have been published, and reach the recorder in time. */
  async #lost(): Promise<Violation | undefined> {
    const { engine, url, recorder } = this.#subject
    const after = this.#serials.at(-LOOK_BACK_LOOKS) ?? 0
    const gone = await withDirectConnection(url(), async (sql) => {
      const [row] = await sql.query('select max(serial) as last from chaos_committed')
      this.#serials.push(Number(row?.['last'] ?? 0))
      return readGone(engine, sql, after)
    })
    let missing = gone.filter((id) => !recorder.first.has(id) && !this.#reportedLost.has(id))
    for (let waited = 0; missing.length > 0 && waited < THROUGH_BROKER_MS; waited += 200) {
      await pause(200)
      missing = missing.filter((id) => !recorder.first.has(id))
    }
    const [id] = missing
    if (id === undefined) return undefined
    // Each is reported once: waiting for the same messages at every look would slow down the run.
    for (const one of missing) this.#reportedLost.add(one)
    const keys = await withDirectConnection(url(), (sql) =>
      sql.query('select name from chaos_committed where message_id = ?', [id]),
    )
    const key = textOf(keys[0]?.['name'])
    return {
      check: 'published',
      id,
      key,
      text: `${missing.length} messages are neither in the outbox nor published, the first ${id}${ofKey(key)}.`,
    }
  }

  /** The first copies of each key, since the last look. */
  #disordered(): Violation | undefined {
    const { copies, first } = this.#subject.recorder
    let violation: Violation | undefined
    for (; this.#orderSeen < copies.length; this.#orderSeen++) {
      const copy = copies[this.#orderSeen]!
      const { id, key, change, relay } = copy
      if (change === undefined || first.get(id) !== copy) continue
      const before = this.#places.get(change.chain) ?? 0
      if (change.place > before) this.#places.set(change.chain, change.place)
      else {
        violation ??= {
          check: 'order',
          id,
          key,
          text: `Change ${change.place} of ${change.chain} (${id}) was first published by ${relay} after change ${before}.`,
        }
      }
    }
    return violation
  }

  /** The first copies of keys that producers lock by `lockKeys`: the ledger alone has their places. */
  async #numbered(): Promise<Violation | undefined> {
    const { url, recorder, losses } = this.#subject
    const after = this.#serials.at(-LOOK_BACK_LOOKS) ?? 0
    const numbered = await withDirectConnection(url(), (sql) => readNumbered(sql, after))
    const committed = new Map(numbered.map((message) => [message.id, message]))
    const copies = numbered.flatMap(({ id }) => recorder.first.get(id) ?? [])
    const first = new Map(copies.map((copy) => [copy.id, copy]))
    // Dead letters are redriven at the end only.
    return checkOrder({ first, committed, lost: losses.committed, deadLetters: [] }).violations[0]
  }

  async #storedTwice(): Promise<Violation | undefined> {
    const twice = await withDirectConnection(this.#subject.url(), readStoredTwice)
    if (twice === undefined) return undefined
    const { request, id } = twice
    return {
      check: 'deduplicated',
      id,
      text: `The request ${request} has more than one message, one of them ${id}.`,
    }
  }

  async #twice(): Promise<Violation | undefined> {
    const [row] = await withDirectConnection(this.#subject.url(), (sql) =>
      sql.query(
        'select message_id as id, count(*) as n from chaos_effects group by message_id having count(*) > 1 limit 1',
      ),
    )
    if (row === undefined) return undefined
    const id = String(row['id'])
    const key = this.#subject.recorder.first.get(id)?.key
    return {
      check: 'one effect',
      id,
      key,
      text: `The message ${id}${ofKey(key)} has ${String(row['n'])} effects.`,
    }
  }

  /** A claim and its effect commit together: one statement sees both or neither. */
  async #claimOnly(): Promise<Violation | undefined> {
    const { engine, url, recorder } = this.#subject
    const [row] = await withDirectConnection(url(), (sql) => readClaimsWithoutEffect(engine, sql))
    if (row === undefined) return undefined
    const key = recorder.first.get(row)?.key
    return {
      check: 'claim and effect',
      id: row,
      key,
      text: `The message ${row}${ofKey(key)} has a claim and no effect.`,
    }
  }

  async #unfenced(): Promise<Violation | undefined> {
    const [first] = await withDirectConnection(this.#subject.url(), readUnfenced)
    if (first === undefined) return undefined
    const { id, shard, owner, settledBy } = first
    return {
      check: 'fence',
      id,
      key: this.#subject.recorder.first.get(id)?.key,
      text: `${settledBy} settled the message ${id} of shard ${shard}, whose lease ${owner ?? 'nobody'} held.`,
    }
  }

  /** Copies since the last look whose relay did not hold the shard. */
  async #strangers(): Promise<Violation | undefined> {
    const { url, recorder, losses, leaseMs } = this.#subject
    const copies = recorder.copies.slice(this.#copiesSeen)
    this.#copiesSeen = recorder.copies.length
    const leaseChanges = [...losses.leaseChanges, ...(await withDirectConnection(url(), readLeaseChanges))]
    return checkOwners({ copies, leaseChanges, leaseMs, failovers: losses.failovers }).violations[0]
  }

  /** A message that has killed too many relays. This check sends no query. */
  killed(): Violation | undefined {
    return checkKills({ kills: readKills(this.#subject.killLog) }).violations[0]
  }

  /** Finds processes that use too much memory, and more sessions than the pools may have. */
  async lookAtResources(): Promise<void> {
    const { engine, url, fleet } = this.#subject
    for (const [slot, { mostRssBytes }] of fleet.figures) {
      if (mostRssBytes > MOST_RSS_BYTES) {
        this.resources.push(`${slot} needed ${Math.round(mostRssBytes / 2 ** 20)} MiB of memory.`)
      }
    }
    let least = Infinity
    // The server may still be about to notice the end of a process.
    for (let waited = 0; least > MOST_CONNECTIONS && waited < 5000; waited += 250) {
      const [row] = await withDirectConnection(url(), (sql) =>
        sql.query(
          engine === 'postgres'
            ? `select count(*) as n from pg_stat_activity where usename = '${CLIENT}' and application_name not like 'chaos-%'`
            : `select count(*) as n from information_schema.processlist where user = '${CLIENT}' or user like 'relay-%'`,
        ),
      )
      least = Math.min(least, Number(row?.['n']))
      if (least > MOST_CONNECTIONS) await pause(250)
    }
    if (least > MOST_CONNECTIONS) {
      this.resources.push(`The workers had ${least} connections; their pools have ${MOST_CONNECTIONS}.`)
    }
  }
}
