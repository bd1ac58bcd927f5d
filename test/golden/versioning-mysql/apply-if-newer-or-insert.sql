show index from `orders`;

insert into `orders` (`id`, `status`, `total`, `version`, `changedAt`) select ? as `id`, ? as `status`, ? as `total`, ? as `version`, cast(? as datetime(6)) as `changedAt` where 1 = 1 and not (
    (select char_length(cast(coalesce(max(`orders`.`changedAt`), cast('2000-01-01' as date)) as char)) < 26 from `orders` where false)) on duplicate key update `total` = if(`id` = ? and ((`orders`.`changedAt` is null or `orders`.`changedAt` < cast(? as datetime(6))) and not (char_length(cast(coalesce(`orders`.`changedAt`, cast('2000-01-01' as date)) as char)) < 26)), ?, `total`), `changedAt` = if(last_insert_id(if(`id` = ?, 9007199254740991, 9007199254740990)) and `id` = ? and ((`orders`.`changedAt` is null or `orders`.`changedAt` < cast(? as datetime(6))) and not (char_length(cast(coalesce(`orders`.`changedAt`, cast('2000-01-01' as date)) as char)) < 26)), cast(? as datetime(6)), `changedAt`);

select case when not (1 = 1) then 'ahead' when char_length(cast(coalesce(`orders`.`changedAt`, cast('2000-01-01' as date)) as char)) < 26 then 'rounds'
      when `orders`.`changedAt` is null or `orders`.`changedAt` < cast(? as datetime(6)) then 'newer' else 'stale' end as `found` from `orders` where `id` = ? limit ? for update;

select cast(case when not (1 = 1) then 'ahead' when not (1 = 1 and not (
    (select char_length(cast(coalesce(max(`orders`.`changedAt`), cast('2000-01-01' as date)) as char)) < 26 from `orders` where false))) then 'rounds' else 'none' end as char) as `reason`, count(*) as `rows` from `orders` where 1 = 0;
