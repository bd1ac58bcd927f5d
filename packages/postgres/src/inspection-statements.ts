/** Every statement of `txbox status` and `txbox doctor`. `schema` is quoted. Numbers come as text. */
export function inspectionStatements(schema: string) {
  /** Stops counting at $1. */
  const count = (rows: string): string => `(select count(*) from (select ${rows} limit $1) as counted)::text`
  const ms = (interval: string): string => `floor(extract(epoch from ${interval}) * 1000)::bigint::text`
  return {
    figures: `
select
  ${count(`from ${schema}.outbox`)} as backlog,
  (
    select ${ms('clock_timestamp() - min(first.created_at)')}
    from generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.created_at from ${schema}.outbox as o where o.shard = shards.shard order by o.seq limit 1
    ) as first
  ) as oldest_ms,
  ${count(`from ${schema}.parked where dead_at is null and deliver_at is null`)} as parked,
  ${count(`from ${schema}.parked where dead_at is null and deliver_at is not null`)} as scheduled,
  ${count(`from ${schema}.parked where dead_at is not null`)} as dead,
  ${count(`from ${schema}.inbox where expires_at <= statement_timestamp()`)} as expired,
  (
    select greatest(c.reltuples::bigint, pg_stat_get_live_tuples(c.oid), 0)::text
    from pg_class as c where c.oid = '${schema.replaceAll("'", "''")}.inbox'::regclass
  ) as claims,
  pg_total_relation_size('${schema.replaceAll("'", "''")}.inbox')::text as inbox_bytes`,

    /** $2 is the retention of dead letters in milliseconds, null for ever. */
    collectable: `
select
  ${count(`from ${schema}.inbox where expires_at <= statement_timestamp()`)} as inbox,
  ${count(`from ${schema}.parked where dead_at <= statement_timestamp() - $2::double precision * interval '1 millisecond'`)} as dead_letters`,

    leases: `
select name, owner, term::text as term, ${ms('expires_at - clock_timestamp()')} as remaining_ms
from ${schema}.leases
where owner is not null
order by name`,

    lastCollection: `
select ${ms("finished_at - timestamptz 'epoch'")} as finished_at, inbox::text as inbox,
  dead_letters::text as dead_letters, duration_ms::text as duration_ms
from ${schema}.collections
where finished_at is not null`,

    /** The first message of each key that is held up, among so many parked ones that asking is never dear. */
    blockingKeys: `
select head.order_key as key, head.topic, head.id, head.attempts::text as attempts, head.error, held.waiting::text as waiting
from (
  select order_key, min(place) as place, count(*) - 1 as waiting
  from (select order_key, place from ${schema}.parked where order_key is not null limit 100000) as held_up
  group by order_key
  order by count(*) desc, order_key
  limit $1
) as held
join ${schema}.parked as head on head.place = held.place
order by held.waiting desc, head.order_key`,

    settings: `
select current_setting('server_version') as version, current_setting('server_version_num') as version_number,
  current_setting('default_transaction_isolation') as isolation, current_setting('autovacuum') as autovacuum,
  current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
  pg_is_in_recovery()::text as replica`,

    /** Indexes of our tables, and whether they can be used. */
    indexes: `
select c.relname as name, i.indisvalid::text as valid
from pg_index as i
join pg_class as c on c.oid = i.indexrelid
join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1`,

    /** Columns whose bytes decide what is the same. */
    collations: `
select a.attrelid::regclass::text || '.' || a.attname as name, l.collname as collation
from pg_attribute as a
join pg_class as c on c.oid = a.attrelid
join pg_namespace as n on n.oid = c.relnamespace
join pg_collation as l on l.oid = a.attcollation
where n.nspname = $1 and (c.relname, a.attname) in (('inbox', 'consumer'), ('inbox', 'key'), ('leases', 'name'), ('parked', 'order_key'))
  and l.collname <> 'C'`,

    /** What would break the order of the messages: a sequence that caches, a trigger that draws a number before it waits. */
    order: `
select 'sequence ' || s.sequencename || ' has cache ' || s.cache_size as found
from pg_sequences as s
where s.schemaname = $1 and s.sequencename = 'outbox_seq' and s.cache_size <> 1
union all
select 'trigger ' || t.tgname
from pg_trigger as t
join pg_class as c on c.oid = t.tgrelid
join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = 'outbox' and not t.tgisinternal`,

    /** Who keeps vacuum from removing what was deleted, the oldest first. */
    horizon: `
select 'connection ' || pid || coalesce(' of ' || usename, '') || coalesce(' (' || nullif(application_name, '') || ')', '')
    || ', ' || coalesce(state, 'state hidden') as who,
  ${ms('clock_timestamp() - coalesce(xact_start, state_change)')} as age_ms
from pg_stat_activity
where (backend_xmin is not null or backend_xid is not null) and pid <> pg_backend_pid()
  and backend_type = 'client backend' and clock_timestamp() - coalesce(xact_start, state_change) > $1::double precision * interval '1 millisecond'
union all
select 'prepared transaction ' || gid, ${ms('clock_timestamp() - prepared')}
from pg_prepared_xacts
union all
select 'replication slot ' || slot_name || case when active then '' else ', which nobody reads' end, null
from pg_replication_slots
where xmin is not null and not active
order by age_ms desc nulls last
limit 5`,

    bloat: `
select relname as name, n_dead_tup::text as dead, n_live_tup::text as live
from pg_stat_user_tables
where schemaname = $1 and n_dead_tup > 100000 and n_dead_tup > n_live_tup`,
  } as const
}
