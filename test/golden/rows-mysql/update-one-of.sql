update `orders`
set `total` = ?, `note` = ?, `status` = ?
where `region` = ? and `id` = ? and `status` in (?, ?)
