insert into `txbox_redrives` (redriven_at, place, dead_at, attempts, id, topic, `key`, error, redriven_by, consumer)
select utc_timestamp(6), p.place, p.dead_at, p.attempts, p.id, coalesce(p.topic, ''), p.`key`, p.error, ?, p.consumer
from json_table(?, '$[*]' columns (place bigint unsigned path '$[0]')) as j
straight_join `txbox_local_parked` as p force index (primary) on p.place = j.place
