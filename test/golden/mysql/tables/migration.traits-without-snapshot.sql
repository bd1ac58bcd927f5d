select cast(version() as char) as version, cast(@@max_allowed_packet as char) as packet,
  cast(@@autocommit + 0 as char) as autocommit, cast(m.number as char) as number
from (select 1 as one) as o left join `txbox_migrations` as m on true
lock in share mode
