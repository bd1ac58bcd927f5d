show index from `orders`;

insert into `orders` (`id`, `status`, `total`, `version`, `changedAt`) select ? as `id`, ? as `status`, ? as `total`, cast(? as decimal(20)) as `version`, ? as `changedAt` where 1 = 1 on duplicate key update `version` = if(last_insert_id(if(`id` = ?, 9007199254740991, 9007199254740990)) and `id` = ? and `orders`.`version` < cast(? as decimal(20)), cast(? as decimal(20)), `version`);

select cast(`version` as char) as `found` from `orders` where `id` = ? limit ? for update;
