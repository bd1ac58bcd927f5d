select hex(r.id) as id, cast(r.redriven_at as char) as at, cast(r.place as char) as place
from json_table(?, '$[*]' columns (
  id varchar(2040) character set ascii path '$[0]', instant varchar(26) character set ascii path '$[1]',
  place bigint unsigned path '$[2]'
)) as found
straight_join `txbox_redrives` as r force index (primary)
  on r.id = unhex(found.id) and r.redriven_at = cast(found.instant as datetime(6)) and r.place = found.place
for update of r skip locked
