delete from `orders`
where `region` = ? and `id` = ? and `version` = ?
