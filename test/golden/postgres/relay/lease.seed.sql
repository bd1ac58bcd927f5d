insert into "txbox".leases (name)
select wanted.name from pg_catalog.unnest($1::text[]) as wanted (name)
where not exists (select from "txbox".leases as l where l.name = wanted.name)
on conflict (name) do nothing
