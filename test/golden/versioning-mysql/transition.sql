update `orders` set `status` = ? where `id` = ? and `status` in (?);

select cast(`status` as char) as `found` from `orders` where `id` = ? limit ? for update;
