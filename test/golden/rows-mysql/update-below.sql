update `orders`
set `version` = ?
where `region` = ? and `id` = ? and `version` < ?
