select case when not (cast(? as datetime(6)) <= utc_timestamp(6) + interval ? microsecond) then 'ahead' when char_length(cast(coalesce(`changed_at`, cast('2000-01-01' as date)) as char)) < 26 then 'rounds'
  when `changed_at` is null or `changed_at` < cast(? as datetime(6)) then 'newer' else 'stale' end as found
from `orders`
where `region` = ? and `id` = ?
limit 2
for update
