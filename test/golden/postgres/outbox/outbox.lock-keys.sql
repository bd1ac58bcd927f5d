select pg_catalog.count(pg_catalog.pg_advisory_xact_lock(number))::text as locked
from (select number from pg_catalog.unnest($1::bigint[]) as wanted (number) order by number) as in_order
