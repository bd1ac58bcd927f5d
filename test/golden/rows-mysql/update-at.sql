update `orders`
set `total` = ?, `note` = ?, `version` = ?
where `region` = ? and `id` = ? and `version` = ?
