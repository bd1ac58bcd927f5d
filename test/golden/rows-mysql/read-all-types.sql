select hex(convert(cast(`total` as char) using utf8mb4)) as c0, hex(`total`) as c0, cast(`total` + 0e0 as char) as c0, cast(`total` as char) as c0, cast(`total` + 0 as char) as c0, (
  select cast(count(*) as char)
  from information_schema.columns
  where table_schema = coalesce(?, database()) and table_name = ?
) as columns
from `orders`
where `region` = ? and `id` = ?
limit 2
