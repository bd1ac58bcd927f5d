with recursive types as (
  (select m.type from "txbox".local_parked as m where m.unhandled and m.consumer = $1 order by m.type limit 1)
  union all
  select (select m.type from "txbox".local_parked as m where m.unhandled and m.consumer = $1 and m.type > types.type order by m.type limit 1)
  from types
  where types.type is not null
)
select types.type
from types
where types.type is not null
limit 10
