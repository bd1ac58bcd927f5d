/**
 * Every statement of the garbage collector. `schema` is quoted. $1 is the limit, $2 the instant from which to search, as
 * microseconds of the Unix time.
 *
 * Why by ctid: what the search has found is locked, so it stays where it is, and needs no second search by its key.
 * statement_timestamp(), because an index cannot serve a comparison with clock_timestamp().
 */
export function garbageStatements(schema: string) {
  const from = "timestamptz 'epoch' + $2::bigint * interval '1 microsecond'"
  /** The last row's instant: where the next batch goes on. */
  const summary = (instant: string): string => `
select count(*)::text as removed, (extract(epoch from max(${instant})) * 1000000)::bigint::text as next
from removed`
  return {
    /** Leaves out what anybody has locked, so that it waits for nobody. */
    removeExpiredClaims: `
with removed as (
  delete from ${schema}.inbox
  where ctid = any (array(
    select ctid
    from ${schema}.inbox
    where expires_at <= statement_timestamp() and expires_at >= ${from}
    order by expires_at
    limit $1
    for update skip locked
  ))
  returning expires_at
)${summary('expires_at')}`,

    /** Dead letters, and nothing else of what is parked. $3 is the retention in milliseconds. */
    removeDeadLetters: `
with removed as (
  delete from ${schema}.parked
  where ctid = any (array(
    select ctid
    from ${schema}.parked
    where dead_at <= statement_timestamp() - $3::double precision * interval '1 millisecond' and dead_at >= ${from}
    order by dead_at
    limit $1
    for update skip locked
  )) and dead_at is not null
  returning dead_at
)${summary('dead_at')}`,

    /** Records of who put which dead letter back. $3 is the retention in milliseconds. */
    removeRedrives: `
with removed as (
  delete from ${schema}.redrives
  where ctid = any (array(
    select ctid
    from ${schema}.redrives
    where redriven_at <= statement_timestamp() - $3::double precision * interval '1 millisecond' and redriven_at >= ${from}
    order by redriven_at
    limit $1
    for update skip locked
  ))
  returning redriven_at
)${summary('redriven_at')}`,

    /** Leaves out the record when another collector is writing it. */
    record: `
update ${schema}.collections
set finished_at = clock_timestamp(), inbox = $1::bigint, dead_letters = $2::bigint, duration_ms = $3::bigint
where id = (select id from ${schema}.collections where id = 1 for update skip locked)`,
  } as const
}
