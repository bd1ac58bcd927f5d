/*
 * PostgreSQL has ON CONFLICT DO NOTHING and RETURNING; MySQL and MariaDB report an existing key as an error, and return
 * only counts.
 */
const CHANGE = 'from_version::text as from_version, to_version::text as to_version, kind, payload'

/** Milliseconds since 1970 as text, so that no type parser of the user changes the value. */
function instant(column: string): string {
  return `pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(${column}, 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as ${column}`
}

/** All statements on the tables of the version buffer. `schema` is quoted. */
export function versionBufferStatements(schema: string) {
  const versions = `${schema}.versions`
  const waiting = `${schema}.waiting`
  const next = (order: 'asc' | 'desc'): string => `
select ${CHANGE}
from ${waiting}
where consumer = $1 and key = $2 and dead_at is null
order by waiting.from_version${order === 'desc' ? ' desc' : ''}
limit $3`
  return {
    /**
     * Locks a chain, or creates a new one. Every transaction that stores or applies a message writes this row.
     * Therefore, at REPEATABLE READ, a transaction with an older snapshot gets an error (40001) instead of missing
     * stored messages.
     */
    lock: `
insert into ${versions} as v (consumer, key, version)
values ($1, $2, $3)
on conflict (consumer, key) do update set version = v.version
returning v.version::text as version, v.waiting::text as waiting`,

    move: `
update ${versions}
set version = $4, waiting = greatest(waiting + $5, 0)
where consumer = $1 and key = $2 and version = $3
returning 'true' as moved`,

    store: `
insert into ${waiting} (consumer, key, from_version, to_version, kind, payload)
values ($1, $2, $3, $4, $5, $6)
on conflict (consumer, key, from_version) do nothing
returning 'true' as stored`,

    read: `
select to_version::text as to_version, (dead_at is not null)::text as dead
from ${waiting}
where consumer = $1 and key = $2 and from_version = $3`,

    first: next('asc'),
    last: next('desc'),

    overdue: `
select ${CHANGE}
from ${waiting}
where consumer = $1 and key = $2 and dead_at is null
  and received_at <= pg_catalog.clock_timestamp() - $3::double precision * interval '1 millisecond'
order by waiting.from_version`,

    bury: `
update ${waiting}
set dead_at = pg_catalog.clock_timestamp(), reason = $4
where consumer = $1 and key = $2 and from_version = any($3::bigint[]) and dead_at is null`,

    remove: `
delete from ${waiting}
where consumer = $1 and key = $2 and from_version = any($3::bigint[]) and (dead_at is not null) = ($4 = 'dead')
returning 'true' as removed`,

    overdueKeys: `
select distinct key
from ${waiting}
where consumer = $1 and dead_at is null
  and received_at <= pg_catalog.clock_timestamp() - $2::double precision * interval '1 millisecond'
limit $3`,

    dead: `
select key, ${CHANGE}, reason, ${instant('received_at')}, ${instant('dead_at')}
from ${waiting}
where consumer = $1 and dead_at is not null and ($2::text is null or key = $2)
  and (key, waiting.from_version) > ($3::text collate "C", $4::bigint)
order by key, waiting.from_version
limit $5`,
  } as const
}
