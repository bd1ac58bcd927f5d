import { sql, type Kysely } from 'kysely'
import { numbersOf, type Parties } from './parties.ts'

/** The final state of the three databases. */
export interface Verdict {
  /** The number of distinct webhooks, and of all their deliveries. */
  readonly webhooks: number
  readonly deliveries: number
  /** Deliveries that were never answered, and deliveries that the receiver's inbox recognised as duplicates. */
  readonly unanswered: number
  readonly duplicates: number
  readonly effects: number
  readonly published: number
  readonly arrivals: number
  readonly duplicatesAtSecond: number
  readonly effectsAtSecond: number
  readonly disordered: number
  readonly lost: number
  readonly doubled: number
}

export async function judge(parties: Parties): Promise<Verdict> {
  const [sender, receiver, second] = [parties.sender.db, parties.receiver.db, parties.secondService.db]
  const sent = await numbersOf(sender, SENT)
  const handled = await numbersOf(receiver, handledOf(parties.receiver.outboxTable))
  const followed = await numbersOf(second, FOLLOWED)
  const lost =
    missing(await column(sender, ACKNOWLEDGED), await column(receiver, COUNTED)) +
    missing(await column(receiver, CHANGES), await column(second, FOLLOWED_CHANGES))
  return {
    webhooks: sent('webhooks'),
    deliveries: sent('deliveries'),
    unanswered: sent('unanswered'),
    duplicates: sent('duplicates'),
    effects: handled('effects'),
    published: handled('counted') - handled('backlog'),
    arrivals: followed('arrivals'),
    duplicatesAtSecond: followed('duplicates'),
    effectsAtSecond: followed('effects'),
    disordered: followed('disordered'),
    lost,
    doubled: handled('doubled') + followed('doubled'),
  }
}

const SENT = `
  select count(distinct delivery_id) as webhooks,
         count(*) as deliveries,
         count(case when answer = 'duplicate' then 1 end) as duplicates,
         count(case when answer not in ('processed', 'duplicate') then 1 end) as unanswered
    from deliveries`

const ACKNOWLEDGED = `
  select distinct delivery_id as value from deliveries where answer in ('processed', 'duplicate')`

const COUNTED = `select distinct delivery_id as value from history`

/** The statistics are the effects: each webhook adds one. The history names these webhooks. */
function handledOf(outboxTable: string): string {
  return `
  select (select coalesce(sum(deliveries), 0) from repositories) as effects,
         (select count(*) from history) as counted,
         (select count(*) from ${outboxTable}) as backlog,
         (select coalesce(sum(deliveries), 0) from repositories)
           - (select count(distinct delivery_id) from history) as doubled`
}

/** Every change of a repository must arrive at the second service; changes are identified by number. */
const CHANGES = `select concat(repository, ' ', number) as value from history`

const FOLLOWED_CHANGES = `select distinct concat(repository, ' ', number) as value from feed`

/** A change is out of order if a change of the same repository with a higher number took effect before it. */
const FOLLOWED = `
  with firsts as (
    select repository, number, min(position) as position from feed group by repository, number
  ), steps as (
    select number,
           max(number) over (partition by repository order by position
                             rows between unbounded preceding and 1 preceding) as highest_before
      from firsts
  )
  select (select count(*) from arrivals) as arrivals,
         (select count(*) from arrivals where outcome = 'duplicate') as duplicates,
         (select count(*) from feed) as effects,
         (select count(*) from steps where number < highest_before) as disordered,
         (select count(*) from feed) - (select count(*) from firsts) as doubled`

async function column<T>(db: Kysely<T>, text: string): Promise<readonly string[]> {
  const { rows } = await sql.raw<{ value: string }>(text).execute(db)
  return rows.map((row) => row.value)
}

/** The number of values in `expected` that are missing from `found`. */
function missing(expected: readonly string[], found: readonly string[]): number {
  const foundValues = new Set(found)
  return expected.filter((value) => !foundValues.has(value)).length
}
