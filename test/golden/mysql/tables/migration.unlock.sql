select cast(release_lock(?) as char) as released
