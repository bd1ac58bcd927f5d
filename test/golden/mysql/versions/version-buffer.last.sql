select cast(w.from_version as char) as from_version, cast(w.to_version as char) as to_version, cast(w.kind as binary) as kind, w.payload
from `txbox_waiting` as w
where w.consumer = ? and w.`key` = ? and w.dead_at is null
order by w.from_version desc
limit ?
for update
