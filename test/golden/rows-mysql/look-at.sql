select hex(convert(cast(`version` as char) using utf8mb4)) as found
from `orders`
where `region` = ? and `id` = ?
limit 2
for update
