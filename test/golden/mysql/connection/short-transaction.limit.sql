set @txbox_wait = @@session.wait_timeout, session wait_timeout = 2,
  @txbox_lock_wait = @@session.innodb_lock_wait_timeout, session innodb_lock_wait_timeout = 4,
  @txbox_table_wait = @@session.lock_wait_timeout, session lock_wait_timeout = 4,
  @txbox_safe_updates = @@session.sql_safe_updates, session sql_safe_updates = 0,
  @txbox_select_limit = @@session.sql_select_limit, session sql_select_limit = 18446744073709551615,
  @txbox_big_selects = @@session.sql_big_selects, session sql_big_selects = 1
