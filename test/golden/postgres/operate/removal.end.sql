with gone as (
  delete from "txbox".subscriptions as s
  where s.consumer = $1 and ($2::text is null or s.type = $2)
)
insert into "txbox".removals (discarded, consumer, type, removed_by)
values (0, $1, $2, $3)
returning number::text as number
