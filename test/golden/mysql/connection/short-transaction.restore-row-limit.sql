set session sql_select_limit = @txbox_select_limit, session sql_big_selects = @txbox_big_selects
