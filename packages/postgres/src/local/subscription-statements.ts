/* PostgreSQL takes a list as an array; MySQL and MariaDB take lists as JSON. */
/** All statements on the table of subscriptions, except that of producers, who read it when they insert. `schema` is quoted. */
export function subscriptionStatements(schema: string) {
  const subscriptions = `${schema}.subscriptions`
  return {
    /** The types ($2) to which a consumer ($1) does not subscribe. */
    missing: `
select wanted.type
from pg_catalog.unnest($2::text[]) as wanted (type)
where not exists (select from ${subscriptions} as s where s.type = wanted.type and s.consumer = $1::text)
order by wanted.type collate "C"`,

    add: `
insert into ${subscriptions} (consumer, type)
select $1::text, wanted.type
from pg_catalog.unnest($2::text[]) as wanted (type)
order by wanted.type collate "C"
on conflict (type, consumer) do nothing
returning type`,

    list: `
select s.consumer, s.type, pg_catalog.floor(pg_catalog.date_part('epoch', s.registered_at) * 1000::double precision)::text as registered_at
from ${subscriptions} as s
order by s.consumer, s.type`,
  } as const
}
