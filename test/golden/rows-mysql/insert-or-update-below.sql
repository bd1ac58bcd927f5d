insert into `orders` (`region`, `id`, `total`, `version`)
select ?, ?, ?, ?
where last_insert_id(0) = 0 and 1 = 1
on duplicate key update `version` = if(last_insert_id(if(`region` = ? and `id` = ?, 9007199254740991, 9007199254740990)) and `region` = ? and `id` = ? and `version` < ?, ?, `version`)
