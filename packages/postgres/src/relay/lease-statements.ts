/*
 * PostgreSQL has arrays and UPDATE … RETURNING; MySQL and MariaDB need a condition for each lease, and acquire leases
 * in two statements.
 */
/** All statements on the table of leases. `schema` is quoted. All times are by the database's clock. */
export function leaseStatements(schema: string) {
  const leases = `${schema}.leases`
  return {
    /** Adds names that have never been leased. */
    seed: `
insert into ${leases} (name)
select wanted.name from pg_catalog.unnest($1::text[]) as wanted (name)
where not exists (select from ${leases} as l where l.name = wanted.name)
on conflict (name) do nothing`,

    /**
     * Acquires leases that are free or have expired. Never waits for another relay that acquires leases. An expired
     * lease that still has an owner was not released: the owner has crashed.
     */
    acquire: `
with free as materialized (
  select name
  from ${leases}
  where name = any ($1::text[]) and (expires_at is null or expires_at <= pg_catalog.clock_timestamp())
  order by name
  limit $4
  for update skip locked
)
update ${leases} as l
set owner = $2, term = l.term + 1, expires_at = pg_catalog.clock_timestamp() + $3::double precision * interval '1 millisecond',
  crashes = least(l.crashes, 1000000) + case when l.owner is null then 0 else 1 end
from free
where l.name = free.name
returning l.name, l.term::text as term, l.crashes::text as crashes, l.in_flight`,

    renew: `
update ${leases} as l
set expires_at = pg_catalog.clock_timestamp() + $4::double precision * interval '1 millisecond'
from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::bigint[])) as held (name, term)
where l.name = held.name and l.term = held.term and l.owner = $3 and l.expires_at > pg_catalog.clock_timestamp()
returning l.name`,

    /** Releases leases. $4 contains the names of the leases whose work was cut off. */
    release: `
update ${leases} as l
set owner = null, expires_at = null,
  crashes = least(l.crashes, 1000000) + case when l.name = any ($4::text[]) then 1 else 0 end,
  in_flight = case when l.name = any ($4::text[]) then l.in_flight end
from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::bigint[])) as held (name, term)
where l.name = held.name and l.term = held.term and l.owner = $3`,

    holders: `
select name, owner
from ${leases}
where pg_catalog.starts_with(name, $1) and expires_at > pg_catalog.clock_timestamp()
order by name`,

    /**
     * Removes unused leases. A search without locks finds the rows first: if there is nothing to remove, nothing is
     * locked or written.
     */
    sweep: `
with unused as materialized (
  select name
  from ${leases}
  where pg_catalog.starts_with(name, $1)
    and (owner is null or expires_at < pg_catalog.clock_timestamp() - $2::double precision * interval '1 millisecond')
  order by name
  for update skip locked
)
delete from ${leases} as l
using unused
where l.name = unused.name`,
  } as const
}
