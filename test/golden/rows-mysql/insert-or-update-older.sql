insert into `orders` (`region`, `id`, `total`, `changed_at`)
select ?, ?, ?, cast(? as datetime(6))
where last_insert_id(0) = 0 and 1 = 1 and not ((select char_length(cast(coalesce(max(`changed_at`), cast('2000-01-01' as date)) as char)) < 26 from `orders` where false))
on duplicate key update `total` = if(`region` = ? and `id` = ? and 1 = 1 and (`changed_at` is null or `changed_at` < cast(? as datetime(6))) and not (char_length(cast(coalesce(`changed_at`, cast('2000-01-01' as date)) as char)) < 26), ?, `total`),
  `note` = if(`region` = ? and `id` = ? and 1 = 1 and (`changed_at` is null or `changed_at` < cast(? as datetime(6))) and not (char_length(cast(coalesce(`changed_at`, cast('2000-01-01' as date)) as char)) < 26), ?, `note`),
  `changed_at` = if(last_insert_id(if(`region` = ? and `id` = ?, 9007199254740991, 9007199254740990)) and `region` = ? and `id` = ? and 1 = 1 and (`changed_at` is null or `changed_at` < cast(? as datetime(6))) and not (char_length(cast(coalesce(`changed_at`, cast('2000-01-01' as date)) as char)) < 26), cast(? as datetime(6)), `changed_at`)
