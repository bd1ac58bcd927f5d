select cast(v.version as char) as version, cast(v.waiting as char) as waiting
from `txbox_versions` as v
where v.consumer = ? and v.`key` = ?
for update
