/* PostgreSQL has ON CONFLICT DO NOTHING and RETURNING; on MySQL and MariaDB a duplicate is an error of a plain INSERT. */
/** Milliseconds of the Unix time as text, so that no type parser of the user changes the value. */
const PROCESSED_AT =
  "pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(processed_at, 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as processed_at"

/**
 * Every statement on the inbox table. `schema` is quoted.
 *
 * A claim is INSERT … DO NOTHING and not DO UPDATE … WHERE expired, because the latter locks the row of a live
 * duplicate, takes a transaction id and writes WAL for the lock; two duplicates in opposite order deadlock.
 */
export function inboxStatements(schema: string) {
  const inbox = `${schema}.inbox`
  const expiry = 'pg_catalog.clock_timestamp() + $4::interval'
  return {
    /**
     * Writes a row if there is no claim of the key. Waits for an open claim of another transaction. Returns nothing,
     * which is faster.
     */
    claim: `
insert into ${inbox} (consumer, key, correlation_id, processed_at, expires_at)
values ($1, $2, $3, pg_catalog.clock_timestamp(), ${expiry})
on conflict (consumer, key) do nothing`,

    /** Reads the claim of the key. Uses clock_timestamp(), because now() does not advance in a long transaction. */
    read: `
select (expires_at > pg_catalog.clock_timestamp())::text as live, ${PROCESSED_AT}, correlation_id
from ${inbox}
where consumer = $1 and key = $2`,

    /**
     * Takes over an expired claim. Of several concurrent statements, one gets the row; for the others, the claim is
     * live again.
     */
    renew: `
update ${inbox}
set correlation_id = $3, processed_at = pg_catalog.clock_timestamp(), expires_at = ${expiry}, result = null, content_hash = null
where consumer = $1 and key = $2 and expires_at <= pg_catalog.clock_timestamp()`,

    /**
     * Makes many claims with one statement: inserts new claims, takes over expired ones, and reports live ones. Keys
     * are sorted, and the count makes every plan insert before it locks, so that all batches lock in one order.
     * 'unsettled': another transaction interfered; run the statement again.
     */
    claimBatch: `
with input as materialized (
  select key, correlation_id
  from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[])) with ordinality as given (key, correlation_id, n)
  order by n
), inserted as (
  insert into ${inbox} (consumer, key, correlation_id, processed_at, expires_at)
  select $1, key, correlation_id, pg_catalog.clock_timestamp(), ${expiry} from input
  on conflict (consumer, key) do nothing
  returning key, processed_at
), expired as materialized (
  select held.key, input.correlation_id
  from ${inbox} as held join input on held.key = input.key collate "C"
  where held.consumer = $1 and held.expires_at <= pg_catalog.clock_timestamp()
    and (select pg_catalog.count(*) from inserted) >= 0
  order by held.key
  for update of held
), renewed as (
  update ${inbox} as held
  set correlation_id = expired.correlation_id, processed_at = pg_catalog.clock_timestamp(), expires_at = ${expiry},
      result = null, content_hash = null
  from expired
  where held.consumer = $1 and held.key = expired.key
  returning held.key, held.processed_at
)
select input.key,
  case
    when inserted.key is not null or renewed.key is not null then 'won'
    when held.expires_at > pg_catalog.clock_timestamp() then 'taken'
    else 'unsettled'
  end as state,
  pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(coalesce(inserted.processed_at, renewed.processed_at, held.processed_at), 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as processed_at,
  held.correlation_id
from input
left join inserted on inserted.key = input.key collate "C"
left join renewed on renewed.key = input.key collate "C"
left join ${inbox} as held on held.consumer = $1 and held.key = input.key collate "C"`,

    /**
     * Counts the claims that were written by this transaction and still exist. A visible row whose transaction is in
     * progress belongs to this transaction. The row has the lower half of a transaction id, perhaps that of a
     * savepoint, which is never before the id of the whole transaction.
     */
    held: `
select pg_catalog.count(*)::text as held
from ${inbox} as claimed
cross join (select pg_catalog.pg_current_xact_id_if_assigned()::text::bigint as id) as own
cross join lateral (
  select (claimed.xmin::text::bigint - own.id % 4294967296 + 4294967296) % 4294967296 as distance
) as after
where claimed.consumer = $1 and claimed.key = any($2::text[])
  and case when after.distance < 2147483648
    then pg_catalog.pg_xact_status((own.id + after.distance)::text::pg_catalog.xid8) = 'in progress'
  end`,

    find: `
select 'true' as live
from ${inbox}
where consumer = $1 and key = $2 and expires_at > pg_catalog.clock_timestamp()`,

    remove: `
delete from ${inbox}
where consumer = $1 and key = $2
returning (expires_at > pg_catalog.clock_timestamp())::text as live`,
  } as const
}
