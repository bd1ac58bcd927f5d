/** Every statement on the table of leases. `schema` is quoted. All times are the database's. */
export function leaseStatements(schema: string) {
  const leases = `${schema}.leases`
  return {
    /** Names that nobody has used yet. */
    seed: `
insert into ${leases} (name)
select name from unnest($1::text[]) as wanted (name)
where not exists (select from ${leases} as l where l.name = wanted.name)
on conflict (name) do nothing`,

    /** Those that are free or have run out; never waits for another acquirer. */
    acquire: `
with free as materialized (
  select name, (owner is not null)::text as after_crash
  from ${leases}
  where name = any ($1::text[]) and (expires_at is null or expires_at <= clock_timestamp())
  order by name
  limit $4
  for update skip locked
)
update ${leases} as l
set owner = $2, term = l.term + 1, expires_at = clock_timestamp() + $3::double precision * interval '1 millisecond'
from free
where l.name = free.name
returning l.name, l.term::text as term, free.after_crash`,

    renew: `
update ${leases} as l
set expires_at = clock_timestamp() + $4::double precision * interval '1 millisecond'
from unnest($1::text[], $2::bigint[]) as mine (name, term)
where l.name = mine.name and l.term = mine.term and l.owner = $3 and l.expires_at > clock_timestamp()
returning l.name`,

    release: `
update ${leases} as l
set owner = null, expires_at = null
from unnest($1::text[], $2::bigint[]) as mine (name, term)
where l.name = mine.name and l.term = mine.term and l.owner = $3`,

    holders: `
select name, owner
from ${leases}
where starts_with(name, $1) and expires_at > clock_timestamp()
order by name`,

    sweep: `
delete from ${leases}
where starts_with(name, $1)
  and (owner is null or expires_at < clock_timestamp() - $2::double precision * interval '1 millisecond')`,
  } as const
}
