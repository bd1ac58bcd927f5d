/*M! set statement sql_select_limit = 18446744073709551615, sql_big_selects = 1 for */
select /*+ set_var(sql_select_limit=18446744073709551615) set_var(sql_big_selects=1) */ cast(version() as char) as version, cast(@@max_allowed_packet as char) as packet,
  cast(@@autocommit + 0 as char) as autocommit, cast(m.number as char) as number,
  cast(@@character_set_client as char) as client, cast(@@character_set_connection as char) as connection,
  cast(@@completion_type as char) as completion
from (select 1 as one) as o left join `txbox_migrations` as m on true
lock in share mode
