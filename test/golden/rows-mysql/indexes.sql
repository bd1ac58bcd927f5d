select hex(convert(index_name using utf8mb4)) as name, hex(convert(column_name using utf8mb4)) as part
from information_schema.statistics
where table_schema = coalesce(?, database()) and table_name = ? and non_unique = 0
