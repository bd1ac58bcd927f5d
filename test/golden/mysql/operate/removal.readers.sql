select cast(concat(t.trx_mysql_thread_id, ' ', t.trx_started) as char) as id
from information_schema.innodb_trx as t
join information_schema.processlist as p on p.id = t.trx_mysql_thread_id
where p.db = database() and p.id <> connection_id()
