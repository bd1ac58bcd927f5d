select distinct s.type from "txbox".subscriptions as s order by s.type limit $1
