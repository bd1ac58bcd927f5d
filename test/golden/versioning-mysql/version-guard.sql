update `orders` set `version` = cast(? as decimal(20)) where `id` = ? and `orders`.`version` < cast(? as decimal(20));

select cast(`version` as char) as `found` from `orders` where `id` = ? limit ? for update;
