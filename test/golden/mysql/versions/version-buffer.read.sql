select cast(w.to_version as char) as to_version, cast(w.dead_at is not null as char) as dead
from `txbox_waiting` as w
where w.consumer = ? and w.`key` = ? and w.from_version = ?
lock in share mode
