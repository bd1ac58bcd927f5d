insert into `txbox_redrives` (redriven_at, place, dead_at, attempts, id, topic, `key`, error, redriven_by)
select utc_timestamp(6), p.place, p.dead_at, p.attempts, p.id, p.topic, p.`key`, p.error, ?
from json_table(?, '$[*]' columns (place bigint unsigned path '$[0]')) as j
straight_join `txbox_parked` as p force index (primary) on p.place = j.place
