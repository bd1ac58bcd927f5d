select name from "txbox".leases
where name = $1
for update skip locked
