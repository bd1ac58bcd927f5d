select s.type
from "txbox".subscriptions as s
where s.consumer = $1
order by s.type
limit 1000
