update "txbox".inbox
set result = $3
where consumer = $1 and key = $2
