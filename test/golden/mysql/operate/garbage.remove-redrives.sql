delete r
from json_table(?, '$[*]' columns (
  id varchar(2040) character set ascii path '$[0]', instant varchar(26) character set ascii path '$[1]',
  place bigint unsigned path '$[2]'
)) as locked
straight_join `txbox_redrives` as r force index (primary)
  on r.id = unhex(locked.id) and r.redriven_at = cast(locked.instant as datetime(6)) and r.place = locked.place
