update "txbox".versions
set version = $4, waiting = greatest(waiting + $5, 0)
where consumer = $1 and key = $2 and version = $3
returning 'true' as moved
