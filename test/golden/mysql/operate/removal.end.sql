delete m
from json_table(?, '$[*]' columns (type varchar(2040) character set ascii path '$')) as j
straight_join `txbox_subscriptions` as m force index (primary) on m.type = unhex(j.type) and m.consumer = ?
