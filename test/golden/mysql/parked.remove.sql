delete p
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as gone
straight_join `txbox_parked` as p force index (primary) on p.place = gone.place
where p.dead_at is null
