select cast(get_lock(?, 0) as char) as locked
