insert into "orders" as txbox_row ("region", "id", "total", "version")
select $1, $2, $3, $4
on conflict ("region", "id") do update
set "version" = excluded."version"
where txbox_row."version" < $5::numeric
returning 'true' as written
