select 'connection ' || pid::text || coalesce(' of ' || usename::text, '') || coalesce(' (' || nullif(application_name, '') || ')', '')
    || ', ' || coalesce(state, 'state hidden') as who,
  pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - coalesce(xact_start, state_change)) * 1000::double precision)::bigint::text as age_ms
from pg_catalog.pg_stat_activity
where (backend_xmin is not null or backend_xid is not null) and pid <> pg_catalog.pg_backend_pid()
  and backend_type = 'client backend' and pg_catalog.clock_timestamp() - coalesce(xact_start, state_change) > $1::double precision * interval '1 millisecond'
union all
select 'prepared transaction ' || gid, pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - prepared) * 1000::double precision)::bigint::text
from pg_catalog.pg_prepared_xacts
union all
select 'replication slot ' || slot_name::text || case when active then '' else ', which nobody reads' end, null
from pg_catalog.pg_replication_slots
where xmin is not null and not active
order by age_ms desc nulls last
limit 5
