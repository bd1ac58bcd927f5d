update "txbox".versions
set version = $3, waiting = $4
where consumer = $1 and key = $2
