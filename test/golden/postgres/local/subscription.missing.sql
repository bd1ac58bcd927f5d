select wanted.type
from pg_catalog.unnest($2::text[]) as wanted (type)
where not exists (select from "txbox".subscriptions as s where s.type = wanted.type and s.consumer = $1::text)
order by wanted.type collate "C"
