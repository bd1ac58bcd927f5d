select hex(convert(c.column_name using utf8mb4)) as name, cast(c.data_type as char) as type,
  cast(c.column_type as char) as declared, cast(c.numeric_precision as char) as digits,
  cast(c.numeric_scale as char) as scale, cast(0 /*M! + exists (
    select 1
    from information_schema.check_constraints as k
    where k.constraint_schema = c.table_schema and k.table_name = c.table_name
      and k.check_clause = concat('json_valid(`', c.column_name, '`)')
  ) */ as char) as is_json
from information_schema.columns as c
where c.table_schema = coalesce(?, database()) and c.table_name = ?
order by c.ordinal_position
