delete i
from json_table(?, '$[*]' columns (hexadecimal varchar(1024) character set ascii path '$')) as asked
straight_join `txbox_inbox` as i force index (primary) on i.consumer = ? and i.`key` = unhex(asked.hexadecimal)
