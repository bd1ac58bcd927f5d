update `orders`
set `total` = ?, `note` = ?, `changed_at` = cast(? as datetime(6))
where `region` = ? and `id` = ? and 1 = 1 and (`changed_at` is null or `changed_at` < cast(? as datetime(6))) and not (char_length(cast(coalesce(`changed_at`, cast('2000-01-01' as date)) as char)) < 26)
