set @txbox_select_limit = @@session.sql_select_limit, session sql_select_limit = 18446744073709551615,
  @txbox_big_selects = @@session.sql_big_selects, session sql_big_selects = 1
