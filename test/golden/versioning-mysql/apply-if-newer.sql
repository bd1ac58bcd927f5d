update `orders` set `total` = ?, `changedAt` = cast(? as datetime(6)) where `id` = ? and cast(? as datetime(6)) <= utc_timestamp(6) + interval ? microsecond and ((`orders`.`changedAt` is null or `orders`.`changedAt` < cast(? as datetime(6))) and not (char_length(cast(coalesce(`orders`.`changedAt`, cast('2000-01-01' as date)) as char)) < 26));

select case when not (cast(? as datetime(6)) <= utc_timestamp(6) + interval ? microsecond) then 'ahead' when char_length(cast(coalesce(`orders`.`changedAt`, cast('2000-01-01' as date)) as char)) < 26 then 'rounds'
      when `orders`.`changedAt` is null or `orders`.`changedAt` < cast(? as datetime(6)) then 'newer' else 'stale' end as `found` from `orders` where `id` = ? limit ? for update;
