delete from `orders` where `id` = ? and `version` = cast(? as decimal(20));

select cast(`version` as char) as `found` from `orders` where `id` = ? limit ? for update;
