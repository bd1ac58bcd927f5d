
    select cast(data_type as char) as type, cast(column_type as char) as declared,
      cast(numeric_precision as char) as digits, cast(numeric_scale as char) as scale
    from information_schema.columns
    where table_schema = coalesce(?, database()) and table_name = ? and column_name = ?;

update `orders` set `total` = ?, `version` = cast(? as decimal(20)) where `id` = ? and `version` = cast(? as decimal(20));

select cast(`version` as char) as `found` from `orders` where `id` = ? limit ? for update;
