set session wait_timeout = @txbox_wait, session innodb_lock_wait_timeout = @txbox_lock_wait,
  session lock_wait_timeout = @txbox_table_wait, session sql_safe_updates = @txbox_safe_updates,
  session sql_select_limit = @txbox_select_limit, session sql_big_selects = @txbox_big_selects
