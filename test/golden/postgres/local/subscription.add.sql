insert into "txbox".subscriptions (consumer, type)
select $1::text, wanted.type
from pg_catalog.unnest($2::text[]) as wanted (type)
order by wanted.type collate "C"
on conflict (type, consumer) do nothing
returning type
