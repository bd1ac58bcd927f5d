SET session wait_timeout = @txbox_idle
