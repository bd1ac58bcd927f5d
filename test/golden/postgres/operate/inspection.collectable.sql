select
  (select pg_catalog.count(*) from (select from "txbox".inbox where expires_at <= pg_catalog.statement_timestamp() limit $1) as counted)::text as inbox,
  (select pg_catalog.count(*) from (select from "txbox".parked where dead_at <= pg_catalog.statement_timestamp() - $2::double precision * interval '1 millisecond' union all select from "txbox".queue where dead_at <= pg_catalog.statement_timestamp() - $2::double precision * interval '1 millisecond' limit $1) as counted)::text as dead_letters,
  (select pg_catalog.count(*) from (select from "txbox".redrives where redriven_at <= pg_catalog.statement_timestamp() - $2::double precision * interval '1 millisecond' limit $1) as counted)::text as redrives,
  (select pg_catalog.count(*) from (select from "txbox".waiting where dead_at <= pg_catalog.statement_timestamp() - $2::double precision * interval '1 millisecond' limit $1) as counted)::text as buffered_dead_letters
